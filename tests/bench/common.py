"""What the benchmarks share: running a program with its peak memory, tables, plots, and where the figures were taken."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


class Failed(Exception):
    """A program failed; the text says which and shows its last lines."""


class Finished:
    """What a program printed, and its peak resident memory."""

    def __init__(self, out, err, peak_bytes, began):
        self.out, self.err, self.peak_bytes, self.began = out, err, peak_bytes, began  # began: seconds since 1970


def run(command, environment=None, cores=None):
    """Runs a program to its end, on the given cores only if any are given. Raises Failed unless it exits with 0."""
    command = [str(word) for word in command]
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.time()
        child = subprocess.Popen(
            command, stdout=out, stderr=err, env={**os.environ, **(environment or {})}, preexec_fn=pin
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        finished = Finished(out.read(), err.read(), 1024 * usage.ru_maxrss, began)
    if child.returncode != 0:
        tail = "\n".join((finished.err or finished.out).strip().splitlines()[-4:])
        raise Failed(f"{' '.join(command)} ended with {child.returncode}: {tail}")
    return finished


def threads_of(devices):
    return max(1, len(os.sched_getaffinity(0)) // devices)


def time_training(trainer, model, devices, iterations, *flags):
    """`trainer time`'s milliseconds of an iteration with updates, by name; the devices share all cores."""
    flags += ("--updates",) if devices == 1 else ()  # several have them in any case; earlier builds do not know the flag
    done = run(
        [
            trainer,
            "time",
            f"--model={model}",
            f"--cpu={devices}",
            f"--threads_per_device={threads_of(devices)}",
            f"--iterations={iterations}",
            "--json",
            *flags,
        ]
    )
    return json.loads(done.out)["milliseconds"]


def skip(what, why):
    """Reports on the terminal what is not measured."""
    print(f"SKIPPED {what}: {why}", file=sys.stderr)


def parse(words, options, usage):
    """Fills `options` from --name=value words; returns the other words. An unknown option prints the usage and exits."""
    others = []
    for word in words:
        name, _, value = word[2:].partition("=")
        if not word.startswith("--"):
            others.append(word)
        elif name in options:
            options[name] = type(options[name])(value) if not isinstance(options[name], bool) else True
        else:
            sys.exit(usage)
    return others


def build_folder(words):
    """The build folder that the command line names, or build/release; it must hold a trainer."""
    build = pathlib.Path(words[0] if words else REPOSITORY / "build/release").resolve()
    if not (build / "bin/trainer").exists():
        sys.exit(f"no trainer in {build}/bin: build it first, or name the build folder")
    return build


def run_main(main):
    try:
        main()
    except Failed as why:
        sys.exit(str(why))


def how_to_get(module):
    return f"{module} is not installed (pip install {module}; --python=INTERPRETER names another interpreter)"


def find_python(module, choice):
    """The interpreter to run a PyTorch script with: `choice` or this one, if it has the module; otherwise None."""
    python = choice or sys.executable
    probe = [python, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"]
    return python if shutil.which(python) and subprocess.run(probe).returncode == 0 else None


# What decides how fast a net is, by the flag of /proc/cpuinfo that stands for it. "bf16" and "amx" are units for bf16.
INSTRUCTION_SETS = {"avx2": "avx2", "avx512": "avx512bw", "bf16": "avx512_bf16", "amx": "amx_bf16"}


def cpu_fields():
    """/proc/cpuinfo of the first core."""
    lines = open("/proc/cpuinfo").read().split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def instruction_sets():
    """Those of INSTRUCTION_SETS that this processor has."""
    flags = cpu_fields().get("flags", "").split()
    return [name for name, flag in INSTRUCTION_SETS.items() if flag in flags]


def cpu_name():
    """The processor's name, its number (names such as "AMD EPYC" say little), its instruction sets, and a variable that hides some."""
    fields = cpu_fields()
    name = fields.get("model name", "unknown processor")
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA")
    sets = [*instruction_sets(), *([f"oneDNN held to {limit}"] if limit else [])]
    return f"{name} with {', '.join(sets)}" if sets else name


def busy_share(seconds=1.0):
    """The share of the processor that other programs are using; reports it if it spoils the figures."""

    def idle_and_all():
        ticks = [int(word) for word in open("/proc/stat").readline().split()[1:]]
        return ticks[3] + ticks[4], sum(ticks[:8])

    before = idle_and_all()
    time.sleep(seconds)
    idle, total = (now - then for now, then in zip(idle_and_all(), before))
    share = 1 - idle / max(1, total)
    if share > 0.1:
        print(
            f"WARNING: other programs use {share:.0%} of the processor: the figures are not to be quoted",
            file=sys.stderr,
        )
    return round(share, 3)


def provenance(trainer, **more):
    """Date, processor, its other load and versions: figures mean nothing without them. Call before measuring."""
    version = run([trainer, "--version"]).out.splitlines()
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "instruction_sets": instruction_sets(),
        "cores": len(os.sched_getaffinity(0)),
        "busy_before": busy_share(),
        "trainer": ", ".join(version[:2]),
        **more,
    }


def taken_where(about, threads):
    """The beginning of the line above a table."""
    return f"{about['date']}, {about['cpu']}, {threads} threads of {about['cores']} cores; {about['trainer']}"


def number(value, form):
    """A cell of a table; None is something that was not measured."""
    return "-" if value is None else form.format(value)


def table(header, rows):
    """A Markdown table with aligned columns, so that it is readable on a terminal too."""
    cells = [header] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def save_json(path, result):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"JSON: {path}")


def save_markdown(folder, name, title, lines, plotted):
    """FOLDER/NAME.md; shows the plot only where one was drawn."""
    picture = [f"![{title}]({name}.svg)", ""] if plotted else []
    path = pathlib.Path(folder) / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"# {title}", "", *lines, "", *picture]))
    print(f"Markdown: {path}")


def plot(folder, name, python, drawing):
    """Draws FOLDER/NAME.svg by plot.py in an interpreter that has matplotlib; if there is none, reports that and returns False."""
    python = find_python("matplotlib", python)
    if python is None:
        skip("the plot", how_to_get("matplotlib"))
        return False
    path = pathlib.Path(folder) / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, str(HERE / "plot.py"), str(path)], input=json.dumps(drawing), text=True, check=True)
    print(f"plot: {path}")
    return True
