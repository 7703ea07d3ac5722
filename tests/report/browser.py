"""A headless Chromium, driven through its DevTools protocol over two pipes: Python's standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The program's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, patience=60):
        self.patience = patience
        self.profile = tempfile.mkdtemp(prefix="banyan_browser_")
        their_in, self.out = os.pipe()
        self.inp, their_out = os.pipe()

        def wire():  # the protocol's pipes are the descriptors 3 and 4
            os.dup2(their_in, 1003)
            os.dup2(their_out, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        # No sandbox: containers often allow none, and the page is our own. The GPU plays no part.
        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--force-color-profile=srgb", "--remote-debugging-pipe", f"--user-data-dir={self.profile}"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(their_in)
        os.close(their_out)
        self.buffer, self.last, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.inp, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.patience
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1280, height=900, dark=False, media="", mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.emulate(dark, media)
        self.events.clear()
        self.call("Page.navigate", url=path if "://" in path else "file://" + os.path.abspath(path))
        deadline = time.monotonic() + self.patience
        while self.run("document.readyState") != "complete" or not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            if time.monotonic() > deadline:
                raise TimeoutError("the page does not load")
            time.sleep(0.02)

    def emulate(self, dark=False, media=""):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", replMode=True, expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def drag(self, x0, y0, x1, y1):
        for kind, x, y, buttons in (("mouseMoved", x0, y0, 0), ("mousePressed", x0, y0, 1), ("mouseMoved", (x0 + x1) / 2, y1, 1),
                                    ("mouseMoved", x1, y1, 1), ("mouseReleased", x1, y1, 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons,
                      button="none" if kind == "mouseMoved" else "left", clickCount=0 if kind == "mouseMoved" else 1)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self):
        """Exceptions, errors and warnings of the console."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(str([argument.get("value") for argument in parameters["args"]]))
            elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, path, full=True, clip=None):
        options = {"format": "png", "captureBeyondViewport": full}
        if clip:
            options["clip"] = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        elif full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
