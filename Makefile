# Every target first makes the environment (.venv) where it is missing or older than the pins.
PYTHON ?= python3
BIN = .venv/bin
ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: lab test units compare thorough notebooks site figures bench browser lint lowest teach handout release

lab: .venv/ready                ## open JupyterLab on the first lesson; without a browser, the address is printed
	$(BIN)/jupyter lab $(ROOT) --LabApp.default_url=/lab/tree/notebooks/1_start_here.ipynb

test: .venv/ready               ## lint, the tests, every notebook compared with what is stored: all three, whatever fails
	@failed=; for part in lint units compare; do $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	echo "make test: $${failed:+FAILED:}$${failed:-lint, units and compare passed}"; test -z "$$failed"

units: .venv/ready              ## unit and property tests
	CI=1 $(BIN)/pytest -n 2 --dist loadfile -m "not browser and not thorough"

compare: .venv/ready            ## every notebook run and compared with its stored output
	CI=1 $(BIN)/pytest --nbval --nbval-current-env -n 2 --dist loadfile notebooks

thorough: .venv/ready           ## what nobody need wait for: every cell twice, sections alone, slips in solutions, thoughtless answers
	CI=1 $(BIN)/pytest -n 2 --dist loadfile -m thorough

notebooks: .venv/ready          ## execute every notebook in place and derive the learner's editions
	$(BIN)/python -m pagedkv.course.editions

site: .venv/site                ## the web book, in build/html: every lesson as it is stored, and the engine's modules
	$(BIN)/python -m pagedkv.course.book

figures: .venv/ready            ## redraw figures/
	$(BIN)/python -m pagedkv.course.figures

bench: .venv/ready              ## measure kernels and engine on a GPU, the CPU's share as ratios
	$(BIN)/python -m pagedkv.bench

browser: .venv/browser          ## every notebook and every page of the book in a real browser
	CI=1 $(BIN)/pytest -n 2 --dist loadfile -m browser

lowest: .venv-lowest/ready      ## three notebooks with the oldest versions that pyproject.toml allows (Python 3.11 or 3.12)
	CI=1 .venv-lowest/bin/pytest --nbval --nbval-current-env -n 2 --dist loadfile notebooks/2_1*.ipynb notebooks/3_1*.ipynb notebooks/3_3*.ipynb

lint: .venv/ready               ## the rules and the format of package and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

teach: .venv-teach/ready        ## nbgrader in an environment of its own, whose notebooks run in .venv

handout:                        ## handout.zip: the committed course without solutions and the tests that give them away
	@test -z "$$(git status --porcelain)" || { echo "handout.zip is made of what is committed: commit your changes first"; exit 1; }
	git archive --format=zip --prefix=pagedkv/ --add-virtual-file="pagedkv/notebooks/solutions/README.md:Your teacher has the solutions." \
	  -o handout.zip HEAD . ':!notebooks/solutions' ':!tests/test_lesson_*' ':!tests/test_judge*' ':!tests/test_nbgrader.py'

release: .venv/site handout     ## pagedkv-VERSION.zip: the course with its solutions, the handout, and the web book without them
	$(BIN)/python -m pagedkv.course.release

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -r requirements.txt -e .
	touch $@

.venv/site: .venv/ready
	$(BIN)/pip install -e ".[site]"
	touch $@

.venv/browser: .venv/site
	$(BIN)/pip install -e ".[browser]"
	touch $@

.venv-lowest/ready: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	sed -n '/^dependencies/,$$p' pyproject.toml | grep -o '[a-z-]*>=[0-9.]*' | sed 's/>=/==/' > .venv-lowest/lowest.txt
	.venv-lowest/bin/pip install -c .venv-lowest/lowest.txt -e ".[notebooks,test,traces]"
	touch $@

.venv-teach/ready: .venv/ready
	$(PYTHON) -m venv .venv-teach
	.venv-teach/bin/pip install -e ".[teach]"
	$(BIN)/python -m ipykernel install --prefix .venv-teach
	touch $@
