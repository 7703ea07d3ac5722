#!/usr/bin/env python3
"""All-reduce of floats among CPU devices: our tree, OpenMPI, gloo and the memory bound, in alternating runs.

usage: all_reduce.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          alternating runs of each; every figure is the median over them
  --devices=2,4       numbers of devices
  --sizes=A,B         bytes (default 2048,16384,262144,4194304,100000000); ours must be among `trainer topology --json`'s
  --python=PROGRAM    the interpreter that has PyTorch, for gloo (default: the one running this)
  --no_gloo           skip gloo (it is slow)
  --messages          only the time per message of the thread that owns MPI, between two processes (message_us of a simulation)
  --json=FILE         default BUILD_FOLDER/bench/all_reduce.json
  --write=FOLDER      also FOLDER/all_reduce.md and all_reduce.svg

Ours is `trainer topology --cpu=N --json`; "ours by MPI" is what joined processes do (--uplink=mpi), one device each, and each bound to a core, as
OpenMPI's own are. OpenMPI (mpicc, mpirun) gets the faster of in place and into a second buffer.
"bare N" is a loop with all cores that reads N buffers and writes N; "bare 2" reads two and writes two.
Exits with 1 if a goal is missed, so that scripts can tell.
"""

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

import common

FLAGS = ["-O3", "-march=native"]
# Each process on one core, shared if there are more processes: otherwise the system may leave a core to three of four, and that decides.
BOUND = ["--oversubscribe", "--map-by", "core", "--bind-to", "core:overload-allowed"]


def compile_c(compiler, source, folder, *flags):
    """The program built from tests/bench/SOURCE, or None after reporting why."""
    if shutil.which(compiler) is None:
        common.skip(source, f"{compiler} is not installed")
        return None
    program = pathlib.Path(folder) / pathlib.Path(source).stem
    try:
        common.run([compiler, *FLAGS, *flags, common.HERE / source, "-o", program])
    except common.Failed as why:
        return common.skip(source, why)
    return program


def compile_ours(trainer, folder):
    """uplink_all_reduce, linked to the build's library; None after reporting why."""
    library = pathlib.Path(trainer).resolve().parent.parent / "lib"
    if not (library / "libbanyan_mpi.so").exists():
        return common.skip("uplink_all_reduce", "the build has no MPI library")
    program = pathlib.Path(folder) / "uplink_all_reduce"
    includes = [f"-I{common.REPOSITORY / folder}" for folder in ("include", "src")]
    try:
        common.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", *includes, common.HERE / "uplink_all_reduce.cpp", "-o", program,
                    f"-L{library}", "-lbanyan", f"-Wl,-rpath,{library}"])
    except common.Failed as why:
        return common.skip("uplink_all_reduce", why)
    return program


def ours(trainer, devices, sizes):
    result = json.loads(common.run([trainer, "topology", f"--cpu={devices}", "--json"]).out)
    times = {entry["bytes"]: entry["seconds_median"] for entry in result["all_reduce"]}
    missing = [size for size in sizes if size not in times]
    if missing:
        raise common.Failed(f"trainer topology does not measure {missing} bytes, only {sorted(times)}")
    return {size: times[size] for size in sizes}


def lines_of(finished):
    """{bytes: the fastest of the line's other figures}"""
    rows = [line.split() for line in finished.out.splitlines()]
    return {int(row[0]): min(float(cell) for cell in row[1:]) for row in rows}


def mpirun(processes, program, *words, flags=()):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return common.run(["mpirun", *root, *BOUND, *flags, "-np", processes, program, *words])


def mpi(program, devices, sizes):
    return lines_of(mpirun(devices, program, *sizes))


def measure_messages(trainer, rounds):
    """{transport: [seconds per message of each round]}"""
    transports = {"memory": [], "TCP on this machine": ["--mca", "btl", "tcp,self"]}
    with tempfile.TemporaryDirectory() as folder:
        program = compile_ours(trainer, folder)
        if program is None:
            sys.exit(1)
        times = {name: [] for name in transports}
        for _ in range(rounds):
            for name, flags in transports.items():
                times[name].append(float(mpirun(2, program, "--messages", flags=flags).out))
    return times


def contenders(trainer, folder, devices, options):
    """{name: function(sizes) -> {bytes: seconds}} of all contenders that can run here."""
    run = {"ours": lambda sizes: ours(trainer, devices, sizes)}
    bare = compile_c(os.environ.get("CC", "gcc"), "bare_all_reduce.c", folder, "-fopenmp")
    if bare:
        run["bare 2"] = lambda sizes: lines_of(common.run([bare, 2, *sizes]))
        if devices != 2:
            run[f"bare {devices}"] = lambda sizes: lines_of(common.run([bare, devices, *sizes]))
    program = (
        compile_c("mpicc", "mpi_all_reduce.c", folder)
        if shutil.which("mpirun")
        else common.skip("OpenMPI", "mpirun is not installed")
    )
    uplink = program and compile_ours(trainer, folder)
    if uplink:
        run["ours by MPI"] = lambda sizes: mpi(uplink, devices, sizes)
    if program:
        run["OpenMPI"] = lambda sizes: mpi(program, devices, sizes)
    python = common.find_python("torch", options["python"])
    if python is None:
        common.skip("gloo", "torch is not installed")
    elif not options["no_gloo"]:
        run["gloo"] = lambda sizes: lines_of(common.run([python, common.HERE / "gloo_all_reduce.py", devices, *sizes]))
    return run


def measure(trainer, devices, sizes, options):
    """{name: {bytes: [seconds of each round]}}"""
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        run = contenders(trainer, folder, devices, options)
        for number in range(options["rounds"]):
            for name in list(run):
                try:
                    for size, seconds in run[name](sizes).items():
                        times.setdefault(name, {}).setdefault(size, []).append(seconds)
                except common.Failed as why:
                    if name == "ours":
                        raise
                    common.skip(f"{name} on {devices} devices", why)
                    del run[name]
            print(f"  {devices} devices, round {number + 1}", file=sys.stderr)
    return times


def ratio(times, above, below, size):
    """Median of the rounds' ratios of two contenders' times; None where either is absent."""
    pairs = list(zip(times.get(above, {}).get(size, []), times.get(below, {}).get(size, [])))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def goals(devices, times, sizes):
    """(what, measured, limit text, met) for each goal that these sizes and contenders cover."""

    def at_least(size, factor):
        value = ratio(times, "OpenMPI", "ours", size)
        return (f"OpenMPI's time over ours, {text(size)}", value, f">= {factor}", value is None or value >= factor)

    def at_most(size, bare):
        value = ratio(times, "ours", bare, size)
        return (f"our time over {bare}'s, {text(size)}", value, "<= 1.5", value is None or value <= 1.5)

    def across(size):
        value = ratio(times, "ours by MPI", "OpenMPI", size)
        return (f"our time by MPI over OpenMPI's, {text(size)}", value, "<= 1.2", value is None or value <= 1.2)

    found = [across(size) for size in sizes if size >= 262144]
    found += [at_least(size, factor) for size, factor in ((100_000_000, 3), (4 << 20, 1.5)) if size in sizes]
    found += [at_most(size, f"bare {devices}") for size in (100_000_000, 4 << 20) if size in sizes]
    if 2048 in sizes and devices in (2, 4):
        limit, value = {2: 5, 4: 30}[devices], 1e6 * statistics.median(times["ours"][2048])
        found.append(("our microseconds, 2 KiB", value, f"<= {limit}", value <= limit))
    return [goal for goal in found if goal[1] is not None]


def text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size // 1_000_000} MB" if size % 1_000_000 == 0 else f"{size} B"


def time_text(seconds):
    return f"{1e6 * seconds:.1f} us" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def rows_of(times, sizes):
    for size in sizes:
        cells = [time_text(statistics.median(by_size[size])) for by_size in times.values()]
        ratios = [ratio(times, name, "ours", size) for name in times if name != "ours"]
        yield [text(size), *cells, *[f"{value:.2f}" for value in ratios]]


def summarize(devices, times, sizes):
    """The Markdown lines and the JSON entry of one number of devices."""
    judged = goals(devices, times, sizes)
    header = [f"{devices} devices", *times, *[f"{name} / ours" for name in times if name != "ours"]]
    lines = [common.table(header, rows_of(times, sizes)), ""]
    lines += [f"- {'met' if met else 'MISSED'}: {what}: {value:.2f} ({limit})" for what, value, limit, met in judged]
    named = [dict(zip(("what", "value", "limit", "met"), goal)) for goal in judged]
    return lines + [""], {"devices": devices, "seconds": times, "goals": named}


def write(folder, lines, results, sizes, about, python):
    series = {
        f"{name}, {result['devices']} devices": [[size, statistics.median(by_size[size])] for size in sizes]
        for result in results
        for name, by_size in result["seconds"].items()
    }
    title = "All-reduce of floats among CPU devices"
    drawing = {"kind": "lines", "title": title, "x": "bytes", "y": "seconds", "series": series}
    plotted = common.plot(folder, "all_reduce", python, drawing)
    head = (
        f"{about['date']}, {about['cpu']}, {about['cores']} cores; {about['trainer']}. "
        f"Median of {about['rounds']} alternating rounds."
    )
    lines = [head, "", *lines, "Made by `tests/bench/all_reduce.py`."]
    common.save_markdown(folder, "all_reduce", "All-reduce among CPU devices", lines, plotted)


def main():
    options = {"rounds": 5, "devices": "2,4", "sizes": "2048,16384,262144,4194304,100000000"}
    options |= {"python": "", "no_gloo": False, "messages": False, "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) > 1 or options["rounds"] < 1:
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer, sizes = build / "bin/trainer", [int(size) for size in options["sizes"].split(",")]
    if options["messages"]:
        for name, seconds in measure_messages(trainer, options["rounds"]).items():
            print(f"a message by {name}: {1e6 * statistics.median(seconds):.2f} us (median of {len(seconds)} rounds)")
        return
    about = common.provenance(trainer, rounds=options["rounds"])
    lines, results = [], []
    for devices in [int(n) for n in options["devices"].split(",")]:
        more, result = summarize(devices, measure(trainer, devices, sizes, options), sizes)
        lines += more
        results.append(result)
    print("\n".join(lines))
    common.save_json(options["json"] or build / "bench/all_reduce.json", {"about": about, "results": results})
    if options["write"]:
        write(options["write"], lines, results, sizes, about, options["python"])
    sys.exit(0 if all(goal["met"] for result in results for goal in result["goals"]) else 1)


if __name__ == "__main__":
    common.run_main(main)
