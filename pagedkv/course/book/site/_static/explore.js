// The explorers of the book: a control picks one of the pictures that were drawn when the book was made.
document.querySelectorAll(".explorer").forEach((box) => {
  const controls = [...box.querySelectorAll("input, select")];
  const words = box.querySelector("details p");
  const say = () => (words.textContent =
    box.querySelector("svg")?.getAttribute("aria-label") ?? box.querySelector(".picture").textContent);
  let loading = null;

  function load() {
    loading ??= new Promise((done) => {
      const script = document.createElement("script"); // a script, since a page from a folder may fetch nothing
      script.src = box.dataset.source;
      script.onload = () => done(window.explorers[box.dataset.name]);
      document.head.append(script);
    });
    return loading;
  }

  async function draw() {
    const { pieces, pictures } = await load();
    const place = (control) => (control.tagName === "SELECT" ? control.selectedIndex : Number(control.value));
    const count = (control) => (control.tagName === "SELECT" ? control.length : Number(control.max) + 1);
    const number = controls.reduce((before, control) => before * count(control) + place(control), 0);
    box.querySelector(".picture").innerHTML = pictures[number].map((piece) => pieces[piece]).join("");
    say();
  }

  say();
  for (const control of controls) {
    control.addEventListener("focus", load);
    control.addEventListener("input", () => {
      if (control.dataset.texts) {
        const text = JSON.parse(control.dataset.texts)[control.value];
        control.setAttribute("aria-valuetext", text);
        control.nextElementSibling.textContent = text;
      }
      draw();
    });
  }
});
