#!/bin/sh
# grade.sh SUBMITTED GRADED: each SUBMITTED/STUDENT/.../LESSON.ipynb in a container of its own, without network.
# What is graded lies in GRADED/STUDENT/LESSON/; PAGEDKV_SEED is handed on. The exit status is 1 if one was not graded.
set -u
submitted=$(cd "$1" && pwd) && mkdir -p "$2" && graded=$(cd "$2" && pwd) || exit
status=0
for folder in "$submitted"/*/; do
    student=$(basename "$folder")
    mkdir -p "$graded/$student"
    find "$folder" -name '*.ipynb' -not -path '*/.ipynb_checkpoints/*' >"$graded/$student/.handins"
    while IFS= read -r handin; do
        docker run --rm --network none --memory 4g --memory-swap 4g --cpus 2 --pids-limit 512 \
            --read-only --tmpfs /tmp:rw,exec,size=2g --cap-drop ALL --security-opt no-new-privileges \
            --user "$(id -u):$(id -g)" --env PAGEDKV_SEED \
            --volume "$handin:/handin/$(basename "$handin"):ro" --volume "$graded/$student:/graded" \
            "${PAGEDKV_IMAGE:-pagedkv-grading}" "/handin/$(basename "$handin")" --student "$student" --to /graded \
            </dev/null || status=1
    done <"$graded/$student/.handins"
    rm "$graded/$student/.handins"
done
exit "$status"
