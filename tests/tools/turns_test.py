#!/usr/bin/env python3
"""Which turn tools/run_tests.sh has for which commit, and what it refuses.

usage: turns_test.py SOURCE"""
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    script = (pathlib.Path(sys.argv[1]) / "tools/run_tests.sh").read_bytes()
    environment = {name: value for name, value in os.environ.items() if name != "BANYAN_TURN" and not name.startswith("GIT_")}

    def run(folder, *words, **more):
        return subprocess.run(words, cwd=folder, env={**environment, **more}, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def git(folder, *words):
        return run(folder, "git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *words)

    def turn(folder, **more):
        path = pathlib.Path(folder) / "tools/run_tests.sh"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(script)
        return run(folder, "bash", path, "--turn", **more)

    def expect(what, found, expected):
        if found != expected:
            sys.exit(f"turns_test: {what}: {found} instead of {expected}")

    with tempfile.TemporaryDirectory() as place:
        if turn(place, GIT_CEILING_DIRECTORIES=str(pathlib.Path(place).parent)) not in ("0", "1", "2", "3"):
            sys.exit("turns_test: where there is no repository it has any turn")
        source = place + "/source"
        git(place, "init", "-q", source)
        for i in range(8):
            git(source, "commit", "-q", "--allow-empty", "-m", str(i))
            expect("a commit", turn(source), str(int(git(source, "rev-parse", "HEAD")[:8], 16) % 4))
        expect("the one that is asked for", turn(source, BANYAN_TURN="2"), "2")

        def refused(option, **more):
            wrong = subprocess.run(["bash", "tools/run_tests.sh", option], cwd=source, env={**environment, **more}, stderr=subprocess.PIPE, text=True)
            return wrong.returncode, wrong.stderr

        expect("one that does not exist", refused("--turn", BANYAN_TURN="4"), (2, "run_tests: BANYAN_TURN=4: 0, 1, 2, 3 or all\n"))
        for count in ("", "0", "many", "-3", "1e3"):
            message = f"run_tests: --random_nets={count}: expected a number from 1 to 999999999\n"
            expect("so many random nets", refused(f"--random_nets={count}"), (2, message))
    print("each commit has a turn")


if __name__ == "__main__":
    main()
