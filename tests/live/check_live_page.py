"""Checks the page of `trainer --serve` in headless Chromium: check_live_page.py URL FOLDER PROCESS.

URL: as the run's log has it; FOLDER: its metrics, to compare with; PROCESS: the trainer, which this ends. The page must
follow the run by itself to the end, and leave alone what its reader does. Also: --browser, exit code 0 if there is one.
"""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report"))
import browser  # noqa: E402

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what)


def until(page, script, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not page.run(script):
        if time.monotonic() > deadline:
            expect(False, what)
            return
        time.sleep(0.1)


def check(page, url, folder, process):
    # While the run is being set up, a page that loads itself again is there.
    page.open(url)
    until(page, "document.getElementById('live') !== null", "the page of the run appears")
    origin = url.rsplit("/", 2)[0]
    iteration = "+document.querySelector('[data-tile=\"iteration\"]').dataset.value"
    expect(page.run("document.querySelector('[data-state]').dataset.state") == "running", "the run goes on")
    expect(page.run("document.querySelector('[data-state]').textContent") == "running", "and the badge says so")
    expect(page.run("document.title") == "run – Banyan", "the page is named as the metrics' folder")
    until(page, "document.querySelector('[data-title=\"Loss\"] path[data-series]') !== null", "the loss is drawn")
    # What its reader does.
    page.run("const log = document.querySelector('[data-title=\"Loss\"] .tools button'); log.click(); 0")
    page.run("document.querySelectorAll('[data-table=\"layers\"] th button')[1].click()")
    page.run("document.querySelector('[data-title=\"run\"] details').open = true")
    page.run("window.mark = document.querySelector('[data-title=\"run\"]'); getSelection().selectAllChildren(mark.querySelector('pre')); 0")
    selected = page.run("String(getSelection())")
    expect("base_lr" in selected, f"the solver is selected: {selected}")
    page.run("{ const e = document.getElementById('smoothing'); e.value = '0.25'; e.dispatchEvent(new Event('input')); 0 }")
    page.run("scrollTo(0, 300)")
    first = page.run(iteration)
    for _ in range(2):
        seen = page.run(iteration)
        until(page, f"{iteration} > {seen}", "the page follows the run")
    expect(page.run(iteration) > first, "later iterations are shown")
    expect(page.run("document.querySelector('[data-title=\"Loss\"] svg').dataset.log") == "true", "the scale stays")
    expect(page.run("document.querySelectorAll('[data-table=\"layers\"] th')[1].getAttribute('aria-sort')") == "ascending", "the order of the table stays")
    expect(page.run("document.querySelector('[data-title=\"run\"] details').open"), "what was opened stays open")
    expect(page.run("window.mark === document.querySelector('[data-title=\"run\"]')"), "what is the same stays")
    expect(page.run("String(getSelection())") == selected, "what is selected stays so")
    expect(page.run("document.getElementById('smoothing').value") == "0.25", "the smoothing stays")
    expect(abs(page.run("scrollY") - 300) < 2, "the page does not jump")
    expect("Live" in page.run("document.getElementById('live').textContent"), "it says that it is live")
    expect(not page.complaints(), f"the console is empty, not {page.complaints()}")
    foreign = [one for one in page.requests() if not one.startswith(origin)]
    expect(not foreign, f"nothing else is asked, not {foreign}")
    # The end.
    os.kill(process, signal.SIGINT)
    until(page, "document.getElementById('live').dataset.live !== 'live'", "the page learns of the end")
    expect(page.run("document.getElementById('live').dataset.live") == "ended", f"the last state arrives: {page.run('document.getElementById(`live`).textContent')}")
    expect(page.run("document.querySelector('[data-state]').dataset.state") == "stopped", "the run was stopped")
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    end = [line for line in lines if line["kind"] == "end"][-1]
    expect(page.run(iteration) == end["iteration"], f"the last iteration is {end['iteration']}: {page.run(iteration)}")
    loss = [line for line in lines if line["kind"] == "train"][-1]["loss"]
    expect(page.run("+document.querySelector('[data-tile=\"loss\"]').dataset.value") == loss, "the last loss is shown")
    time.sleep(2)
    expect(not page.complaints(), f"after the end the console is empty, not {page.complaints()}")


def main():
    if sys.argv[1:] == ["--browser"]:
        sys.exit(0 if browser.find() else 1)
    url, folder, process = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with browser.Browser(patience=150) as page:
        check(page, url, folder, process)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
