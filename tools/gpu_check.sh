#!/usr/bin/env bash
# Checks an installed Banyan on a machine with an NVIDIA GPU and writes a report. It is in bin/ of the folder that
# `cmake --install` makes and needs nothing else: no compiler, no network. docs/gpu_check.md explains the report.
#
# usage: gpu_check.sh [FOLDER] [options]
#   FOLDER             where report.md, report.json and logs/ go (default: gpu_check in the working directory)
#   --only=STEP,STEP   only these: environment gpu_tests sanitizer promises accuracy times
#   --minutes=N        stop what is not done after N minutes in all (default 20)
#   --quick            fewer iterations and nets, no bounds on accuracy: for slow GPUs. The report says so
#   --data=DIR         also train on real data: DIR/mnist (the four idx files, or train_lmdb and test_lmdb) and
#                      DIR/cifar10 (train_lmdb and test_lmdb), whichever exist
#   --jobs=N           processes that run gpu_tests at a time (default: half the cores, at most 8)
#   --python=PROGRAM   the interpreter to look for PyTorch in (default: python3 and others found)
#   --help             this text
# Exit codes: 0 all that ran passed, 1 something failed, 2 bad usage, or no GPU can be used.
set -uo pipefail
export LC_ALL=C

usage() { sed -n '/^# usage/,/^# Exit/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

refuse() {  # message
  printf 'gpu_check: %s\n' "$*" >&2
  exit 2
}

for program in awk sed grep sort timeout mktemp readlink sha256sum; do
  command -v "$program" >/dev/null || refuse "the program $program is missing"
done

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
bin=$root/bin
share=$root/share/banyan
all_steps='environment gpu_tests sanitizer promises accuracy times'
# Shares of the total time; what a step leaves goes to later ones.
# On one emulated GPU gpu_tests take 8 minutes, 3 of which are spent in waiting for watchdogs.
declare -A share_of=([environment]=8 [gpu_tests]=30 [sanitizer]=12 [promises]=18 [accuracy]=15 [times]=17)

folder=
only=
minutes=20
quick=
data=
jobs=
python=
for word in "$@"; do
  case $word in
    --only=*) only=${word#*=} ;;
    --minutes=*) minutes=${word#*=} ;;
    --quick) quick=yes ;;
    --data=*) data=${word#*=} ;;
    --jobs=*) jobs=${word#*=} ;;
    --python=*) python=${word#*=} ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) refuse "unknown option $word; see gpu_check.sh --help" ;;
    *)
      [ -z "$folder" ] || refuse "one folder is expected, found \"$folder\" and \"$word\""
      folder=$word
      ;;
  esac
done
case $minutes in '' | *[!0-9]* | 0*) refuse "--minutes=$minutes: expected a whole number of at least 1" ;; esac
if [ -z "$jobs" ]; then
  jobs=$(($(nproc) / 2))
  [ "$jobs" -ge 1 ] || jobs=1
  [ "$jobs" -le 8 ] || jobs=8
fi
case $jobs in '' | *[!0-9]* | 0*) refuse "--jobs=$jobs: expected a whole number of at least 1" ;; esac
steps=
for step in ${only//,/ }; do
  case " $all_steps " in
    *" $step "*) steps+=" $step " ;;
    *) refuse "--only=$only: there is no step \"$step\"; steps: $all_steps" ;;
  esac
done
[ -z "$only" ] || [ -n "$steps" ] || refuse "--only= names no step; steps: $all_steps"
[ -n "$steps" ] || steps=" $all_steps "
[ -z "$data" ] || [ -d "$data" ] || refuse "--data=$data: there is no such folder"
[ -z "$data" ] || data=$(cd "$data" && pwd)
[ -z "$python" ] || command -v "$python" >/dev/null || refuse "--python=$python: there is no such program"
for file in "$bin/trainer" "$bin/make_digits" "$share/models"; do
  [ -e "$file" ] || refuse "$file is missing: run the gpu_check.sh in bin/ of a folder made by cmake --install"
done

folder=${folder:-gpu_check}
if [ -e "$folder" ] && [ ! -e "$folder/report.json" ] && [ -n "$(ls -A "$folder" 2>&1)" ]; then
  refuse "\"$folder\" exists and holds no report.json of an earlier run: name another folder"
fi
mkdir -p "$folder" || refuse "cannot make the folder \"$folder\""
folder=$(cd "$folder" && pwd)
logs=$folder/logs
rm -rf "$logs" "$folder/report.md" "$folder/report.json"
mkdir "$logs" || refuse "cannot write into \"$folder\""
work=$(mktemp -d) || refuse "cannot make a temporary folder"
mkdir "$work/run"
ln -s "$share/models" "$work/models"

# ---------------------------------------------------------------- what steps share

# Tables with tabs between the columns; the report is made of them.
results=$work/results.tsv      # step, status (passed, failed, skipped, note), check, detail, log
environment=$work/environment.tsv  # name, value
tests=$work/tests.tsv          # gpu_tests: name, status, milliseconds, detail
losses=$work/losses.tsv        # net, devices, precision, SyncBN, first, last, greatest difference, its iteration, status
accuracies=$work/accuracies.tsv  # net, data, devices, iterations, accuracy, seconds, status
times=$work/times.tsv          # round, net, batch, devices, SyncBN, precision, side, seconds of an iteration
layers=$work/layers.tsv        # net, layer, forward ms, backward ms
shares=$work/shares.tsv        # net, devices, iteration, compute, exposed, hidden (ms)
seconds_of=$work/seconds.tsv   # step, seconds
for table in "$results" "$environment" "$tests" "$losses" "$accuracies" "$times" "$layers" "$shares" "$seconds_of"; do
  : >"$table"
done

started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
step=start
step_end=$((60 * minutes))  # of $SECONDS
child=
watcher=
children=()
gpus=0
all_gpus=
no_gpu=

row() {  # table columns...: one line, without tabs and line ends of its own
  local table=$1 line= column
  shift
  for column in "$@"; do
    column=${column//[$'\t\r\n']/ }
    line+=$column$'\t'
  done
  printf '%s\n' "${line%$'\t'}" >>"$table"
}

note() {  # status check detail [log]
  row "$results" "$step" "$1" "$2" "$3" "${4:-}"
  case $1 in
    passed) printf '  ok       %s: %s\n' "$2" "$3" ;;
    failed) printf '  FAILED   %s: %s\n' "$2" "$3" ;;
    skipped) printf '  skipped  %s: %s\n' "$2" "$3" ;;
    note) printf '  %s: %s\n' "$2" "$3" ;;
  esac
}

wanted() { case $steps in *" $1 "*) ;; *) return 1 ;; esac; }

left() { echo $((step_end - SECONDS)); }

# Runs a command for at most the given seconds and no longer than the step. Sets rc, took and log; the command's output
# goes to logs/NAME.log, or its standard output to the file `out` where that is set. `from`: its working directory.
# `silence`: the command is also stopped if it prints nothing for that many seconds.
out=
from=$work
silence=
silent=
run() {  # name seconds command...
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  log=logs/$name.log
  [ "$limit" -le "$(left)" ] || limit=$(left)
  took=0
  limit_was=$limit
  silent=
  printf '$ %s\n' "$*" >>"$folder/$log"
  if [ "$limit" -lt 1 ]; then
    rc=125
    printf 'gpu_check: no time left in this step\n' >>"$folder/$log"
    out=
    from=$work
    return
  fi
  # In the background: a shell that waits for a child in the foreground does not see Ctrl-C before the child ends.
  if [ -n "$out" ]; then
    (cd "$from" && exec timeout -k 10 "$limit" "$@") >"$out" 2>>"$folder/$log" </dev/null &
  else
    (cd "$from" && exec timeout -k 10 "$limit" "$@") >>"$folder/$log" 2>&1 </dev/null &
  fi
  child=$!
  if [ -n "$silence" ]; then
    stop_where_silent "$child" "$silence" "$folder/$log" &
    watcher=$!
  fi
  wait "$child" 2>/dev/null  # the shell would report a crash on its own
  rc=$?
  child=
  if [ -n "$silence" ]; then
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    [ ! -e "$work/silent" ] || silent=$silence
    rm -f "$work/silent"
    watcher=
  fi
  out=
  from=$work
  took=$((SECONDS - begin))
}

stop_where_silent() {  # process seconds log
  local size=-1 now since=$SECONDS
  while sleep 2; do
    now=$(wc -c <"$3")
    if [ "$now" != "$size" ]; then
      size=$now
      since=$SECONDS
    elif [ $((SECONDS - since)) -ge "$2" ]; then
      : >"$work/silent"
      kill "$1"
      return
    fi
  done
}

why() {  # of the last run's failure
  if [ -n "$silent" ]; then
    printf 'stopped after %s s without a result' "$silent"
    return
  fi
  case $rc in
    124 | 137) printf 'not done after %s s' "$limit_was" ;;
    125) printf 'no time left in this step (--minutes=%s)' "$minutes" ;;
    126 | 127) printf 'could not be started: %s' "$(tail -n 1 "$folder/$log")" ;;
    132) printf 'illegal instruction: this build is for another processor (build with -DBANYAN_NATIVE=OFF)' ;;
    134) printf 'aborted: %s' "$(tail -n 1 "$folder/$log")" ;;
    139) printf 'segmentation fault' ;;
    *)
      # The trainer's error has several lines: what happened, then where.
      local said
      said=$(awk '/^trainer: / { text = ""; inside = 1 } inside && NF { sub(/^ +/, ""); text = text (text == "" ? "" : "; ") $0 } END { print text }' "$folder/$log")
      [ -n "$said" ] || said=$(grep -v '^[[:space:]]*$' "$folder/$log" | tail -n 1)
      printf 'ended with %s: %s' "$rc" "$said"
      ;;
  esac
}

cited() {  # file: as it stands in the report, at most 60 lines
  sed -e 's/```/` ` `/g' "$1" 2>/dev/null | awk 'NR <= 60; NR == 61 { print "..." }'
}

# A fresh folder for one run, from which the models and the data are found by the names that solvers use.
new_case() {  # name: sets place
  place=$work/cases/$1
  rm -rf "$place"
  mkdir -p "$place"
  ln -s "$work/run" "$place/run"
  ln -s "$work/models" "$place/models"
}

train() {  # name seconds flags...: in $place
  local name=$1 limit=$2
  shift 2
  from=$place
  run "$name" "$limit" "$bin/trainer" --progress=off "$@"
}

make_digits() {  # 0 where the drawn digits are there
  [ -d "$work/run/digits/test_lmdb" ] && return 0
  rm -rf "$work/run/digits"
  run make_digits 120 "$bin/make_digits" --train=10000 --test=2000 "$work/run/digits"
  [ "$rc" = 0 ] && return 0
  note failed "drawing digits" "$(why)" "$log"
  return 1
}

# ResNet-20 takes 28 x 28 grey images as well: pooling is global. No mirroring, digits have a handedness.
digits_resnet20() {  # batch
  sed -e 's|transform_param {.*}|transform_param { scale: 0.015625 mean_value: 35 }|' -e 's|run/cifar10/|run/digits/|' \
    -e "s|batch_size: 128|batch_size: $1|" "$share/models/cifar10_resnet20/train_test.prototxt"
}

digits_lenet() {  # batch
  sed -e "s|batch_size: 64|batch_size: $1|" "$share/models/digits/train_test.prototxt"
}

device_lists() {  # what is trained on
  echo 0
  echo 0,0
  [ -n "$quick" ] || echo 0,0,0,0
  [ "$gpus" -lt 2 ] || echo "$all_gpus"
}

# ---------------------------------------------------------------- environment

package_folders() {  # existing folders of Python packages, each once, one per line
  local base program
  {
    for program in ${python:+"$python"} python3 python; do
      command -v "$program" >/dev/null || continue
      timeout 30 "$program" -c 'import site, sys
print("\n".join(sys.path + site.getsitepackages() + [site.getusersitepackages()]))' 2>/dev/null </dev/null
    done
    for base in "${VIRTUAL_ENV:-/nonexistent}" "${CONDA_PREFIX:-/nonexistent}" "${HOME:-/nonexistent}/.local" /usr /usr/local \
      /opt/* /opt/*/.venv /opt/*/venv; do
      printf '%s\n' "$base"/lib/python3*/site-packages "$base"/lib/python3*/dist-packages
    done
  } | awk 'NF && !seen[$0]++' | while IFS= read -r base; do [ ! -d "$base" ] || printf '%s\n' "$base"; done
}

library_folders() {  # folders where CUDA's and cuDNN's libraries may be, one per line; those of packages first
  local packages candidate
  while IFS= read -r packages; do
    for candidate in "$packages"/nvidia/*/lib; do [ ! -d "$candidate" ] || printf '%s\n' "$candidate"; done
  done < <(package_folders)
  for candidate in "${CUDA_HOME:-/nonexistent}"/lib64 "${CUDA_HOME:-/nonexistent}"/lib /usr/local/cuda/lib64 /usr/local/cuda*/lib64 \
    /usr/local/cuda*/lib /usr/local/cuda*/targets/x86_64-linux/lib "${CONDA_PREFIX:-/nonexistent}/lib" /usr/local/nvidia/lib64 \
    /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib/wsl/lib; do
    [ ! -d "$candidate" ] || printf '%s\n' "$candidate"
  done
}

add_folder() {
  case ":${LD_LIBRARY_PATH:-}:" in
    *":$1:"*) ;;
    *) export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
  esac
}

# Adds folders to LD_LIBRARY_PATH until the CUDA back end loads and finds the driver. Where one comes from a Python
# package its sisters come too: cuDNN loads further libraries by itself. Sets no_gpu to the reason where no GPU can be used.
original_library_path=${LD_LIBRARY_PATH-}
load_backend() {
  local missing found candidate sister
  library_folders >"$work/library_folders"
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    run device_query 120 "$bin/trainer" device_query --gpu=all
    [ "$rc" != 0 ] || break
    # The log holds all attempts: the last one's error is its last line.
    missing=$(tail -n 1 "$folder/$log" | sed -n -e 's/.*cannot load the CUDA back end: \(lib[^: ]*\): cannot open shared object.*/\1/p' \
      -e 's/.*(no NVIDIA driver is installed).*/libcuda.so.1/p')
    [ -n "$missing" ] || break
    found=
    while IFS= read -r candidate; do
      if [ -e "$candidate/$missing" ]; then
        found=$candidate
        break
      fi
    done <"$work/library_folders"
    # The driver's library is not looked for where the loader has looked.
    case $missing:$found in libcuda.so.1: | libcuda.so.1:/usr/lib/x86_64-linux-gnu | libcuda.so.1:/usr/lib64) break ;; esac
    if [ -z "$found" ]; then
      no_gpu="the library $missing is not on this machine, neither in the loader's folders nor in a Python package"
      return
    fi
    case ":${LD_LIBRARY_PATH:-}:" in *":$found:"*) break ;; esac  # it does not help
    case $found in
      */nvidia/*/lib) for sister in "${found%/*/lib}"/*/lib; do add_folder "$sister"; done ;;
    esac
    add_folder "$found"
  done
  if [ "$rc" = 0 ]; then
    gpus=$(grep -c '^Device:' "$folder/$log")
    [ "$gpus" -gt 0 ] || no_gpu="trainer device_query --gpu=all names none"
  else
    no_gpu=$(grep -v '^\$' "$folder/$log" | sed -n 's/.*no GPU can be used (\(.*\)); --cpu=.*/\1/p' | tail -n 1)
    [ -n "$no_gpu" ] || no_gpu=$(why)
  fi
}

environment_step() {
  row "$environment" "kernel" "$(uname -srm)"
  row "$environment" "processor" "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) usable cores"
  row "$environment" "memory" "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
  if command -v nvidia-smi >/dev/null; then
    run nvidia_smi 60 nvidia-smi
    run nvidia_smi_query 60 nvidia-smi --format=csv \
      --query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,clocks.max.sm,power.limit,ecc.mode.current
    if [ "$rc" = 0 ]; then
      note passed nvidia-smi "$(tail -n +3 "$folder/$log" | awk '{ printf "%s%s", (NR > 1 ? "; " : ""), $0 }')" "$log"
      row "$environment" "GPUs (nvidia-smi)" "$(tail -n +3 "$folder/$log" | awk -F', ' '{ printf "%s%s", (NR > 1 ? ", " : ""), $1 }')"
      row "$environment" "driver" "$(tail -n 1 "$folder/$log" | awk -F', ' '{ print $2 }')"
    else
      note skipped nvidia-smi "$(why)" "$log"
    fi
    run nvidia_smi_topology 60 nvidia-smi topo -m
  else
    note skipped nvidia-smi "not on this machine"
  fi
  load_backend
  [ "${LD_LIBRARY_PATH-}" = "$original_library_path" ] || row "$environment" "LD_LIBRARY_PATH" "$LD_LIBRARY_PATH"
  run version 120 "$bin/trainer" --version
  if [ "$rc" = 0 ]; then
    local line
    while IFS= read -r line; do
      case $line in
        '$'*) ;;
        CPU:*) break ;;  # what follows is in the other logs
        *': '*) row "$environment" "${line%%: *}" "${line#*: }" ;;
        *) row "$environment" "${line%% *}" "${line#* }" ;;
      esac
    done <"$folder/$log"
  else
    note failed "trainer --version" "$(why)" "$log"
  fi
  if [ -n "$no_gpu" ]; then
    note failed "GPUs" "no GPU can be used: $no_gpu" logs/device_query.log
    return
  fi
  all_gpus=$(awk -v n="$gpus" 'BEGIN { for (i = 0; i < n; ++i) printf "%s%d", i ? "," : "", i }')
  note passed "GPUs" "$(awk '/^Name:/ { sub(/^Name: */, ""); printf "%s%s", n++ ? ", " : "", $0 }' "$folder/logs/device_query.log")" \
    logs/device_query.log
  row "$environment" "usable GPUs" "$gpus"
  wanted environment || return 0
  local list iterations=
  [ -z "$quick" ] || iterations=--iterations=1
  for list in 0,0 $([ "$gpus" -lt 2 ] || echo "$all_gpus"); do
    out=$folder/logs/topology_$list.json
    run "topology_$list" 90 "$bin/trainer" topology --gpu="$list" --json $iterations
    if [ "$rc" != 0 ]; then
      note failed "links of GPUs $list" "$(why)" "$log"
      continue
    fi
    if awk '/"from":/ { ++n; if ($0 !~ /"data": "whole"/) { ++bad; print } }
        END { printf "%d directions, all data arrived whole\n", n; exit n == 0 || bad > 0 }' \
      "$folder/logs/topology_$list.json" >"$work/links"; then
      note passed "links of GPUs $list" "$(cat "$work/links")" "logs/topology_$list.json"
    else
      note failed "links of GPUs $list" "$(head -n 1 "$work/links")" "logs/topology_$list.json"
    fi
  done
  if [ "$gpus" -gt 1 ]; then
    run topology 90 "$bin/trainer" topology --gpu=all $iterations
  fi
}

# ---------------------------------------------------------------- gpu_tests

# Tests of one log: name, status, milliseconds, message. A test without a result has the status `running`.
read_tests() {
  awk '
    function name_of(line) { sub(/^\[[ A-Z]*\] /, "", line); sub(/,? where .*/, "", line); sub(/ \([0-9]+ ms\)$/, "", line); return line }
    function emit(status) { print name "\t" status "\t" ms "\t" message; name = "" }
    /^\[ RUN      \] / { name = name_of($0); message = ""; ms = 0; lines = 0; next }
    name != "" && /^\[ +(OK|FAILED|SKIPPED) +\] .*\([0-9]+ ms\)$/ {
      ms = $0; sub(/.*\(/, "", ms); sub(/ ms\)$/, "", ms)
      emit($0 ~ /^\[ +OK/ ? "passed" : $0 ~ /^\[ +FAILED/ ? "failed" : "skipped"); next }
    name != "" && lines < 8 && NF { gsub(/\t/, " "); message = message (lines++ ? " / " : "") $0 }
    END { if (name != "") emit("running") }' "$1"
}

# Some tests read models/; the folder of the sources is not on this machine. Random failures are drawn a thousand times
# where nothing else is said, which takes minutes.
gpu_tests=(env BANYAN_SOURCE="$share" BANYAN_SCHEDULES="${BANYAN_SCHEDULES:-$([ -n "$quick" ] && echo 10 || echo 100)}"
  OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(($(nproc) > jobs ? $(nproc) / jobs : 1))}" "$bin/gpu_tests" --gtest_color=no)

# Runs the tests in $work/waiting, several processes of them at a time.
run_tests_at_once() {
  local of=$1 k pids=()
  for ((k = 0; k < jobs; ++k)); do
    mkdir -p "$work/job_$k"
    awk -v n="$jobs" -v k="$k" 'NR % n == k' "$work/waiting" >"$work/job_$k/waiting"
    [ -s "$work/job_$k/waiting" ] || continue
    (
      trap 'kill $child $watcher 2>/dev/null; wait; exit 1' INT TERM
      work=$work/job_$k
      from=$work
      tests=$work/tests.tsv
      results=$work/results.tsv
      : >"$tests"
      : >"$results"
      number=0
      run_waiting_tests "${of}_$k"
    ) &
    pids+=($!)
  done
  children=("${pids[@]}")
  wait "${pids[@]}"
  children=()
  take_results_of_jobs
}

take_results_of_jobs() {
  local k
  for ((k = 0; k < jobs; ++k)); do
    ! [ -e "$work/job_$k/tests.tsv" ] || cat "$work/job_$k/tests.tsv" >>"$tests"
    ! [ -e "$work/job_$k/results.tsv" ] || cat "$work/job_$k/results.tsv" >>"$results"
    rm -rf "$work/job_$k"
  done
}

# Runs the tests in $work/waiting. A test that crashes or hangs takes its process down: the rest continue in another one.
run_waiting_tests() {  # name of the logs
  local processes name status ms message ended
  for ((processes = 0; processes < 20; ++processes)); do
    [ -s "$work/waiting" ] || return 0
    number=$((number + 1))
    silence=$([ -n "$quick" ] && echo 300 || echo 100)
    run "gpu_tests_$1_$number" 400 "${gpu_tests[@]}" --gtest_filter="$(awk '{ printf "%s%s", (NR > 1 ? ":" : ""), $0 }' "$work/waiting")"
    silence=
    read_tests "$folder/$log" >"$work/read"
    ended=
    while IFS=$'\t' read -r name status ms message; do
      if [ "$status" = running ]; then
        ended=yes
        status=failed
        message="$(why) $message"
      fi
      row "$tests" "$name" "$status" "$ms" "$message"
      [ "$status" != failed ] || note failed "$name" "$message" "$log"
    done <"$work/read"
    awk -F'\t' 'FILENAME == ARGV[1] { done[$1]; next } !($1 in done)' "$work/read" "$work/waiting" >"$work/still"
    mv "$work/still" "$work/waiting"
    [ -z "$ended" ] || continue
    if [ ! -s "$work/waiting" ] && [ "$rc" != 0 ] && ! grep -q $'\tfailed\t' "$work/read"; then
      note failed "end of gpu_tests" "every test passed, but the program $(why)" "$log"
    fi
    break
  done
  [ ! -s "$work/waiting" ] || note failed gpu_tests "$(why); $(wc -l <"$work/waiting") tests did not run" "$log"
}

gpu_tests_step() {
  if [ ! -x "$bin/gpu_tests" ]; then
    note skipped gpu_tests "not installed (this Banyan was built with -DBANYAN_TESTS=OFF)"
    return
  fi
  out=$work/listed
  run gpu_tests_list 60 "$bin/gpu_tests" --gtest_list_tests
  if [ "$rc" != 0 ]; then
    note failed "list of gpu_tests" "$(why)" "$log"
    return
  fi
  awk '/^[^ ].*\./ { suite = $1 } /^ / { print suite $1 }' "$work/listed" | grep -v '\.DISABLED_\|/DISABLED_' >"$work/waiting"
  if [ ! -s "$work/waiting" ]; then
    note failed "list of gpu_tests" "it is empty" "$log"
    return
  fi
  # Tests that make GPUs fail may leave them unusable for their process: they run last, in a separate one.
  local name
  mv "$work/waiting" "$work/all_tests"
  grep -v Fail "$work/all_tests" >"$work/waiting"
  run_tests_at_once whole
  grep Fail "$work/all_tests" >"$work/waiting"
  run_tests_at_once failing
  # After a failure the GPU may have refused everything else in that process.
  awk -F'\t' '$2 == "failed" { print $1 }' "$tests" | head -n 12 >"$work/again"
  while IFS= read -r name; do
    run gpu_tests_again 60 "${gpu_tests[@]}" --gtest_filter="$name"
    case $rc in
      0) note note "$name, once more alone" "passes" "$log" ;;
      124 | 125 | 137) note note "$name, once more alone" "$(why)" "$log" ;;
      *) note note "$name, once more alone" "fails too" "$log" ;;
    esac
  done <"$work/again"
  local counts
  counts=$(awk -F'\t' '{ ++n[$2] } END { printf "%d passed, %d failed, %d skipped", n["passed"], n["failed"], n["skipped"] }' "$tests")
  if awk -F'\t' '$2 == "passed" { ok = 1 } $2 == "failed" { bad = 1 } END { exit !ok || bad }' "$tests"; then
    note passed gpu_tests "$counts"
  else
    note failed gpu_tests "$counts"
  fi
}

# ---------------------------------------------------------------- compute-sanitizer

find_sanitizer() {
  local candidate packages
  {
    command -v compute-sanitizer
    printf '%s\n' "${CUDA_HOME:-/nonexistent}/bin/compute-sanitizer" /usr/local/cuda*/bin/compute-sanitizer \
      /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/cuda*/bin/compute-sanitizer \
      /opt/nvidia/*/compute-sanitizer /opt/nvidia/*/*/compute-sanitizer
    package_folders | while IFS= read -r packages; do
      printf '%s\n' "$packages"/nvidia/*/bin/compute-sanitizer "$packages"/nvidia/*/compute-sanitizer/compute-sanitizer
    done
  } | while IFS= read -r candidate; do
    if [ -f "$candidate" ] && [ -x "$candidate" ]; then
      printf '%s\n' "$candidate"
      break
    fi
  done
}

sanitize() {  # tool check flags -- command...
  local tool=$1 check=$2 flags=()
  shift 2
  while [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  shift
  from=$place
  run "sanitizer_${tool}_${check// /_}" 120 "$sanitizer" --tool "$tool" --error-exitcode 99 --target-processes application-only \
    "${flags[@]}" "$@"
  local summary
  summary=$(grep -E 'SUMMARY' "$folder/$log" | tail -n 1 | sed 's/^=* *//')
  if grep -qiE 'device not supported|unsupported (device|driver)|insufficient permissions' "$folder/$log"; then
    note skipped "$tool of $check" "compute-sanitizer refuses this machine: $(grep -iE 'not supported|unsupported|permissions' "$folder/$log" | head -n 1)" "$log"
  elif [ "$rc" = 0 ] && [ -n "$summary" ]; then
    note passed "$tool of $check" "$summary" "$log"
  elif [ "$rc" = 99 ]; then
    note failed "$tool of $check" "$(grep -E '^=+ +[A-Z]' "$folder/$log" | grep -v 'COMPUTE-SANITIZER' | head -n 1 | sed 's/^=* *//'); $summary" "$log"
  elif [ "$rc" = 124 ] || [ "$rc" = 137 ] || [ "$rc" = 125 ]; then
    # Slowness under the tool is not a finding; findings are printed immediately.
    if grep -qE '^=+ +(Invalid|Error|Race|Hazard|Barrier|Misaligned|Warning)' "$folder/$log"; then
      note failed "$tool of $check" "$(grep -E '^=+ +(Invalid|Error|Race|Hazard|Barrier|Misaligned|Warning)' "$folder/$log" | head -n 1 | sed 's/^=* *//'); $(why)" "$log"
    else
      note skipped "$tool of $check" "$(why); nothing found until then" "$log"
    fi
  else
    note failed "$tool of $check" "$(why)" "$log"
  fi
}

sanitizer_step() {
  sanitizer=$(find_sanitizer)
  if [ -z "$sanitizer" ]; then
    note skipped compute-sanitizer "not found: neither on the PATH, nor in a CUDA toolkit, nor in a Python package"
    return
  fi
  run sanitizer_version 30 "$sanitizer" --version
  row "$environment" compute-sanitizer "$(awk '/^Version/' "$folder/$log"), $sanitizer"
  make_digits || return
  new_case sanitizer
  digits_lenet 8 >"$place/lenet.prototxt"
  digits_resnet20 8 >"$place/resnet20.prototxt"
  local tool net filter
  for net in lenet resnet20; do
    write_solver "$place/$net.solver" "$net.prototxt" 'max_iter: 2 base_lr: 0.01'
  done
  # Our kernels only, where cuBLAS's and cuDNN's would take minutes.
  run sanitizer_help 30 "$sanitizer" --help
  filter=--kernel-regex
  ! grep -qe '--kernel-name ' "$folder/$log" || filter=--kernel-name
  # Calls that fail on purpose (requests for too much memory) are not findings.
  for tool in memcheck synccheck racecheck; do
    local flags=()
    [ $tool != memcheck ] || flags+=(--report-api-errors no)
    [ $tool != racecheck ] || flags+=("$filter" kns=banyan)
    sanitize $tool "training LeNet on 0,0" "${flags[@]}" -- "$bin/trainer" --solver=lenet.solver --gpu=0,0 --watchdog=0 --progress=off
    sanitize $tool "training ResNet-20 on 0,0" "${flags[@]}" -- "$bin/trainer" --solver=resnet20.solver --gpu=0,0 --watchdog=0 --progress=off
    if [ -x "$bin/gpu_tests" ]; then
      sanitize $tool "operator tests" "${flags[@]}" -- "$bin/gpu_tests" --gtest_color=no \
        '--gtest_filter=Devices/*cuda_f32:-*SmallTerms*:*SameBitsEveryTime*:*Differences*'
    fi
  done
}

# ---------------------------------------------------------------- promises

write_solver() {  # file net fields
  cat >"$1" <<END
net: "$2"
momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" random_seed: 1 snapshot_prefix: "out" display: 1
$3
END
}

losses_of() {  # log: iteration and loss, one pair per line
  sed -n 's/.* Iteration \([0-9]*\)\( ([^)]*)\)\{0,1\}, loss = \([^ ]*\)$/\1 \3/p' "$1"
}

# The greatest relative difference of two lists of losses: "difference iteration first_difference first last".
compare_losses() {  # reference file, file
  awk 'function off(a, b) { a -= b; b = b < 0 ? -b : b; return (a < 0 ? -a : a) / (b > 0 ? b : 1) }
    FILENAME == ARGV[1] { want[$1] = $2; ++n; next }
    $1 in want { ++m; d = $2 == $2 + 0 ? off($2, want[$1]) : 1e9; if ($1 == 0) first = d; if (d >= worst) { worst = d; at = $1 }
      if ($1 == 0) shown = $2; last = $2 }
    END { if (n == 0 || m != n) { worst = first = 1e9; at = "missing" } print worst + 0, at, first + 0, shown, last }' "$1" "$2"
}

at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }

# One training run for its losses, compared with those of one CPU device in f64. Sets worst and passes; adds a row.
compared_run() {  # net case devices precision sync bound flags...
  local net=$1 name=$2 devices=$3 precision=$4 sync=$5 bound=$6 at first shown last status
  shift 6
  passes=
  train "$name" 120 --solver=solver.prototxt --precision="$precision" "$@"
  if [ "$rc" != 0 ]; then
    row "$losses" "$net" "$devices" "$precision" "$sync" - - - - failed
    note failed "$net on $devices in $precision" "$(why)" "$log"
    return
  fi
  losses_of "$folder/$log" >"$place/losses"
  read -r worst at first shown last < <(compare_losses "$reference" "$place/losses")
  # Losses are printed with six digits.
  if at_most "$first" 2e-5 && at_most "$worst" "$bound"; then passes=yes; fi
  case $sync$passes in
    onyes) status=passed ;;
    off) status="differs, as it must" ;;
    *) status=failed ;;
  esac
  row "$losses" "$net" "$devices" "$precision" "$sync" "$shown" "$last" "$worst" "$at" "$status"
  if [ "$sync" = on ]; then
    note "$status" "$net on $devices in $precision is one device" "loss $shown, then $last; differs from f64 by $worst at most (allowed $bound)" "$log"
  fi
}

same_files() {  # folder folder iteration
  local kind a b
  for kind in caffemodel solverstate; do
    a=$(sha256sum <"$1/out_iter_$3.$kind" 2>/dev/null) && b=$(sha256sum <"$2/out_iter_$3.$kind" 2>/dev/null) || return 1
    [ "$a" = "$b" ] || return 1
  done
}

prepare_promise() {  # net case: the net and solver of a fresh case
  new_case "$2"
  if [ "$1" = LeNet ]; then
    digits_lenet $((quick_batch > 0 ? quick_batch : 64)) >"$place/net.prototxt"
    write_solver "$place/solver.prototxt" net.prototxt "base_lr: 0.01 max_iter: $promised snapshot: $((promised / 2))"
  else
    # Small steps: rounding grows a hundredfold in some iterations of this net at its usual rate.
    digits_resnet20 32 >"$place/net.prototxt"
    write_solver "$place/solver.prototxt" net.prototxt "base_lr: 0.001 max_iter: $promised snapshot: $((promised / 2))"
  fi
}

promises_of() {  # net
  local net=$1 cpus list first_place second_place bound rounding=0
  prepare_promise "$net" "${net}_reference"
  reference=$place/losses
  train "promise_${net}_cpu1_f64" 200 --solver=solver.prototxt --cpu=1 --precision=f64
  if [ "$rc" != 0 ]; then
    note failed "$net on one CPU device in f64, the reference" "$(why)" "$log"
    return
  fi
  losses_of "$folder/$log" >"$reference"
  row "$losses" "$net" "cpu 1" f64 on "$(awk 'NR == 1 { print $2 }' "$reference")" "$(awk 'END { print $2 }' "$reference")" 0 0 reference
  for cpus in 1 2 4; do
    if [ "$net" = LeNet ] && [ "$cpus" != 1 ]; then
      prepare_promise "$net" "${net}_cpu${cpus}_f64"
      compared_run "$net" "promise_${net}_cpu${cpus}_f64" "cpu $cpus" f64 on 2e-5 --cpu=$cpus
    fi
    prepare_promise "$net" "${net}_cpu${cpus}"
    compared_run "$net" "promise_${net}_cpu${cpus}_f32" "cpu $cpus" f32 on 1e-2 --cpu=$cpus
    [ -z "$passes" ] || rounding=$(awk -v a="$rounding" -v b="$worst" 'BEGIN { print (a > b ? a : b) }')
  done
  # What f32 costs on CPU devices is the measure of what it may cost on GPUs.
  bound=$(awk -v r="$rounding" 'BEGIN { print 5 * r + 1e-4 }')
  for list in $(device_lists); do
    if [ -n "$gpu_f64" ]; then
      prepare_promise "$net" "${net}_gpu${list}_f64"
      compared_run "$net" "promise_${net}_gpu${list}_f64" "gpu $list" f64 on 2e-5 --gpu="$list"
    fi
    prepare_promise "$net" "${net}_gpu${list}"
    first_place=$place
    compared_run "$net" "promise_${net}_gpu${list}" "gpu $list" f32 on "$bound" --gpu="$list"
    [ "$rc" = 0 ] || continue
    prepare_promise "$net" "${net}_gpu${list}_again"
    second_place=$place
    train "promise_${net}_gpu${list}_again" 120 --solver=solver.prototxt --gpu="$list"
    if [ "$rc" != 0 ]; then
      note failed "$net on gpu $list: same bits in two runs" "$(why)" "$log"
    elif same_files "$first_place" "$second_place" "$promised"; then
      note passed "$net on gpu $list: same bits in two runs" "snapshots after $promised iterations are equal byte by byte" "$log"
    else
      note failed "$net on gpu $list: same bits in two runs" "snapshots after $promised iterations differ" "$log"
    fi
    prepare_promise "$net" "${net}_gpu${list}_resumed"
    cp "$first_place/out_iter_$((promised / 2))".* "$place/"
    train "promise_${net}_gpu${list}_resumed" 120 --solver=solver.prototxt --gpu="$list" --snapshot="out_iter_$((promised / 2)).solverstate"
    if [ "$rc" != 0 ]; then
      note failed "$net on gpu $list: resumed is uninterrupted" "$(why)" "$log"
    elif same_files "$first_place" "$place" "$promised"; then
      note passed "$net on gpu $list: resumed is uninterrupted" "snapshots after $promised iterations are equal byte by byte" "$log"
    else
      note failed "$net on gpu $list: resumed is uninterrupted" "snapshots after $promised iterations differ" "$log"
    fi
  done
  # Without SyncBN two devices are not one: the comparison above must be able to see that.
  prepare_promise "$net" "${net}_local"
  compared_run "$net" "promise_${net}_gpu0,0_local" "gpu 0,0" f32 off "$bound" --gpu=0,0 --sync_bn=off
  if [ "$rc" = 0 ] && [ -z "$passes" ]; then
    note passed "$net on gpu 0,0 without SyncBN is told apart" "differs by $worst" "$log"
  elif [ "$rc" = 0 ]; then
    note failed "$net on gpu 0,0 without SyncBN is told apart" "differs by $worst only: the comparison sees nothing" "$log"
  fi
}

promises_step() {
  make_digits || return
  promised=20
  quick_batch=0
  if [ -n "$quick" ]; then
    promised=4
    quick_batch=8
  fi
  prepare_promise LeNet gpu_f64
  train promise_gpu_f64 120 --solver=solver.prototxt --gpu=0 --precision=f64
  gpu_f64=yes
  if [ "$rc" = 2 ] && grep -q 'is for CPU devices' "$folder/$log"; then
    gpu_f64=
    note skipped "f64 on GPUs" "this Banyan has none; GPUs in f32 are compared with f64 on the processor" "$log"
  fi
  promises_of LeNet
  if [ -n "$quick" ]; then
    note skipped "promises with ResNet-20" "--quick"
  else
    promises_of ResNet-20
  fi
}

# ---------------------------------------------------------------- accuracy

train_to_accuracy() {  # net data devices least iterations flags...: in $place
  local net=$1 of=$2 list=$3 least=$4 iterations=$5 accuracy first last
  shift 5
  train "accuracy_${net}_${of// /_}_gpu${list}" 300 --gpu="$list" "$@"
  accuracy=$(sed -n 's/.*Test net output #[0-9]*: accuracy = //p' "$folder/$log" | tail -n 1)
  if [ "$rc" != 0 ]; then
    row "$accuracies" "$net" "$of" "gpu $list" "$iterations" "${accuracy:--}" "$took" failed
    note failed "$net on $of, gpu $list" "$(why)" "$log"
  elif [ -n "$quick" ]; then
    read -r first last < <(losses_of "$folder/$log" | awk 'NR == 1 { a = $2 } { b = $2 } END { print a, b }')
    if at_most "$last" "$first"; then
      row "$accuracies" "$net" "$of" "gpu $list" "$iterations" "${accuracy:--}" "$took" "no bound (--quick)"
      note passed "$net on $of, gpu $list" "loss fell from $first to $last in $iterations iterations; no bound on accuracy (--quick)" "$log"
    else
      row "$accuracies" "$net" "$of" "gpu $list" "$iterations" "${accuracy:--}" "$took" failed
      note failed "$net on $of, gpu $list" "loss went from $first to $last in $iterations iterations" "$log"
    fi
  elif [ -n "$accuracy" ] && at_most "$least" "$accuracy"; then
    row "$accuracies" "$net" "$of" "gpu $list" "$iterations" "$accuracy" "$took" passed
    note passed "$net on $of, gpu $list" "accuracy $accuracy after $iterations iterations (at least $least expected), $took s" "$log"
  else
    row "$accuracies" "$net" "$of" "gpu $list" "$iterations" "${accuracy:--}" "$took" failed
    note failed "$net on $of, gpu $list" "accuracy ${accuracy:-not printed} after $iterations iterations, at least $least expected" "$log"
  fi
}

link_mnist() {  # 0 where run/mnist has both LMDBs
  local part kind
  if [ -d "$data/mnist/train_lmdb" ] && [ -d "$data/mnist/test_lmdb" ]; then
    ln -sfn "$data/mnist" "$work/run/mnist"
    return 0
  fi
  mkdir -p "$work/run/mnist"
  for part in train:train test:t10k; do
    for kind in '' .gz; do
      [ -f "$data/mnist/${part#*:}-images-idx3-ubyte$kind" ] || continue
      run "convert_mnist_${part%:*}" 60 "$bin/convert_mnist" "$data/mnist/${part#*:}-images-idx3-ubyte$kind" \
        "$data/mnist/${part#*:}-labels-idx1-ubyte$kind" "$work/run/mnist/${part%:*}_lmdb"
    done
  done
  [ -d "$work/run/mnist/train_lmdb" ] && [ -d "$work/run/mnist/test_lmdb" ]
}

accuracy_step() {
  make_digits || return
  local list lenet_iterations=942 resnet_iterations=234
  if [ -n "$quick" ]; then
    lenet_iterations=24
    resnet_iterations=0
    note skipped "bounds on accuracy, ResNet-20" "--quick"
  fi
  for list in $(device_lists); do
    new_case "lenet_$list"
    if [ -n "$quick" ]; then
      digits_lenet 16 >"$place/net.prototxt"
      write_solver "$place/solver.prototxt" net.prototxt "base_lr: 0.01 average_loss: 5 max_iter: $lenet_iterations snapshot_after_train: false"
      train_to_accuracy LeNet "drawn digits" "$list" 0.99 $lenet_iterations --solver=solver.prototxt
    else
      train_to_accuracy LeNet "drawn digits" "$list" 0.99 $lenet_iterations --solver=models/digits/solver.prototxt
    fi
  done
  if [ $resnet_iterations -gt 0 ]; then
    for list in $(device_lists); do
      new_case "resnet20_$list"
      digits_resnet20 128 >"$place/net.prototxt"
      cat >"$place/solver.prototxt" <<END
# Three epochs of the 10,000 drawn digits.
net: "net.prototxt" test_iter: 20 test_interval: 78 test_initialization: false
base_lr: 0.1 momentum: 0.9 weight_decay: 0.0005 lr_policy: "cosine" warmup_iter: 40 warmup_start_lr: 0.01
display: 20 average_loss: 20 max_iter: $resnet_iterations snapshot_prefix: "out" snapshot_after_train: false random_seed: 1
END
      train_to_accuracy ResNet-20 "drawn digits" "$list" 0.99 $resnet_iterations --solver=solver.prototxt
    done
  fi
  if [ -z "$data" ] || [ -n "$quick" ]; then
    note skipped "MNIST and CIFAR-10" "$([ -n "$quick" ] && echo --quick || echo 'no --data=DIR')"
    return
  fi
  if link_mnist; then
    for list in $(device_lists); do
      new_case "mnist_$list"
      mkdir "$place/out"
      sed 's|snapshot_prefix: .*|snapshot_prefix: "out/lenet"|' "$share/models/lenet/sync_bn_solver.prototxt" >"$place/solver.prototxt"
      train_to_accuracy LeNet MNIST "$list" 0.99 10000 --solver=solver.prototxt
    done
  else
    note skipped MNIST "$data/mnist has neither the two LMDBs nor the four idx files"
  fi
  if [ -d "$data/cifar10/train_lmdb" ] && [ -d "$data/cifar10/test_lmdb" ]; then
    ln -sfn "$data/cifar10" "$work/run/cifar10"
    for list in $(device_lists); do
      new_case "cifar10_$list"
      mkdir "$place/out"
      sed 's|snapshot_prefix: .*|snapshot_prefix: "out/resnet20"|' "$share/models/cifar10_resnet20/solver.prototxt" >"$place/solver.prototxt"
      train_to_accuracy ResNet-20 CIFAR-10 "$list" 0.80 3910 --solver=solver.prototxt
    done
  else
    note skipped CIFAR-10 "$data/cifar10 has no train_lmdb and test_lmdb"
  fi
}

# ---------------------------------------------------------------- times

made_net() {  # file of models/, batch of a device, channels, height, width
  cat <<END
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: $2 dim: $3 dim: $4 dim: $5 } shape { dim: $2 }
  data_filler { type: "constant" value: 0.5 } data_filler { type: "constant" value: 1 } } }
END
  # All but the data layers, which are found by counting braces.
  awk '{ line = $0; sub(/#.*/, "", line); opened = gsub(/\{/, "{", line); closed = gsub(/\}/, "}", line) }
    depth == 0 && line ~ /^layer/ { block = ""; inside = 1 }
    inside { block = block $0 "\n"; depth += opened - closed
      if (depth == 0) { inside = 0; if (block !~ /type: "(Data|ImageData|DummyData)"/) printf "%s", block } next }
    { print }' "$share/models/$1.prototxt"
}

median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

count_of() { awk -v list="$1" 'BEGIN { print split(list, a, ",") }'; }

time_ours() {  # round net file batch shape devices sync display intervals precision
  local round=$1 net=$2 batch=$4 list=$6 sync=$7 display=$8 intervals=$9 precision=${10} each seconds
  each=$((batch / $(count_of "$list")))
  [ $each -gt 0 ] || each=1
  new_case "time_${net}_$list"
  made_net "$3" $each $5 >"$place/net.prototxt"
  write_solver "$place/solver.prototxt" net.prototxt \
    "base_lr: 0.0001 snapshot_after_train: false max_iter: $((display * (intervals + 1) + 1))"
  sed -i "s/display: 1$/display: $display/" "$place/solver.prototxt"
  train "time_${net}_gpu${list}_${sync}_${precision}_$round" 150 --solver=solver.prototxt --gpu="$list" --sync_bn="$sync" --precision="$precision"
  # The first interval warms up.
  seconds=$(sed -n 's/.* Iteration [1-9][0-9]* ([^,]*, \([0-9.e+-]*\)s\/.*/\1/p' "$folder/$log" | tail -n +2 | median)
  if [ "$rc" = 2 ] && grep -q 'does not multiply in bf16' "$folder/$log"; then
    note skipped "time of $net in bf16" "$(why)" "$log"
    return
  fi
  if [ "$rc" != 0 ] || [ -z "$seconds" ]; then
    note failed "time of $net on gpu $list, SyncBN $sync, $precision" "$(why)" "$log"
    return
  fi
  row "$times" "$round" "$net" "$((each * $(count_of "$list")))" "$list" "$sync" "$precision" ours "$(awk -v s="$seconds" -v d="$display" 'BEGIN { print s / d }')"
}

time_torch() {  # round net batch shape precision display intervals
  local shape=${4// /,}
  out=$work/torch_seconds
  run "time_$2_torch_$5_$1" 150 env LD_LIBRARY_PATH="$original_library_path" "$torch" "$share/gpu_check/torch_speed.py" \
    "$2" "$3,$shape" "$5" "$6" "$7"
  case $rc in
    0) ;;
    124 | 125 | 137)
      note skipped "time of $2 in PyTorch, $5" "$(why)" "$log"
      return
      ;;
    *)
      note failed "time of $2 in PyTorch, $5" "$(why)" "$log"
      return
      ;;
  esac
  row "$times" "$1" "$2" "$3" 0 - "$5" torch "$(median <"$work/torch_seconds")"
}

find_torch() {  # sets torch to an interpreter whose PyTorch sees a GPU
  torch=
  local candidate
  for candidate in ${python:+"$python"} python3 python /opt/*/bin/python3 /opt/*/.venv/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    out=$work/torch_version
    run torch_version 120 env LD_LIBRARY_PATH="$original_library_path" "$candidate" -c 'import torch
assert torch.cuda.is_available(), "this PyTorch sees no GPU"
print("PyTorch %s, CUDA %s, cuDNN %s" % (torch.__version__, torch.version.cuda, torch.backends.cudnn.version()))'
    if [ "$rc" = 0 ]; then
      torch=$candidate
      row "$environment" PyTorch "$(tail -n 1 "$work/torch_version"), $(command -v "$candidate")"
      return
    fi
  done
  note skipped "comparison with PyTorch" "no interpreter found whose PyTorch sees a GPU (--python=PROGRAM names one)" "$log"
}

time_layers() {  # net file batch shape devices iterations
  local each=$(($3 / $(count_of "$5")))
  new_case "layers_$1"
  made_net "$2" $each $4 >"$place/net.prototxt"
  out=$folder/logs/layers_$1_gpu$5.json
  run "layers_$1_gpu$5" 120 "$bin/trainer" time --updates --model="$place/net.prototxt" --gpu="$5" --iterations="$6" --json
  if [ "$rc" != 0 ]; then
    note failed "layers of $1 on gpu $5" "$(why)" "$log"
    return
  fi
  note passed "layers of $1 on gpu $5" "timed" "logs/layers_$1_gpu$5.json"
  [ "$5" != 0 ] || sed -n 's/.*"name": "\([^"]*\)", "forward": \([^,]*\), "backward": \([^}]*\)}.*/'"$1"'\t\1\t\2\t\3/p' \
    "$folder/logs/layers_$1_gpu$5.json" >>"$layers"
  sed -n 's/.*"milliseconds": {"compute": \([^,]*\), "exposed": \([^,]*\),.*"iteration": \([^,]*\), "hidden": \([^}]*\)}.*/\3\t\1\t\2\t\4/p' \
    "$folder/logs/layers_$1_gpu$5.json" | while IFS=$'\t' read -r iteration compute exposed hidden; do
    row "$shares" "$1" "gpu $5" "$iteration" "$compute" "$exposed" "$hidden"
  done
}

times_step() {
  # net, file, batch in all, shape, iterations of an interval, intervals, has batch norms
  local nets='lenet lenet/train_test 64 1,28,28 500 5 -
lenet_sync_bn lenet/sync_bn_train_test 64 1,28,28 500 5 bn
cifar10_resnet20 cifar10_resnet20/train_test 128 3,32,32 40 5 bn
resnet50 resnet50/train 32 3,224,224 8 5 bn'
  local rounds=3 iterations=20
  if [ -n "$quick" ]; then
    nets='lenet lenet/train_test 8 1,28,28 2 2 -
lenet_sync_bn lenet/sync_bn_train_test 8 1,28,28 2 2 bn
cifar10_resnet20 cifar10_resnet20/train_test 2 3,32,32 1 2 bn'
    rounds=1
    iterations=2
    note skipped "time of ResNet-50" "--quick"
  fi
  find_torch
  local net file batch shape display intervals bn list sync round begin longest=0 precision
  while read -r net file batch shape display intervals bn; do
    for list in 0 $([ "$bn" = - ] || echo 0,0) $([ "$bn" = - ] || [ "$gpus" -lt 2 ] || echo "$all_gpus"); do
      time_layers "$net" "$file" "$batch" "${shape//,/ }" "$list" $iterations
    done
  done <<<"$nets"
  for ((round = 1; round <= rounds; ++round)); do
    begin=$SECONDS
    if [ $round -gt 1 ] && [ "$(left)" -lt $((longest * 5 / 4)) ]; then
      note skipped "rounds $round to $rounds of the times" "no time left in this step; a round takes $longest s"
      break
    fi
    while read -r net file batch shape display intervals bn; do
      for list in 0 0,0 $([ "$gpus" -lt 2 ] || echo "$all_gpus"); do
        for sync in $([ "$bn" = - ] && echo as_written || echo on off); do
          time_ours $round "$net" "$file" "$batch" "${shape//,/ }" "$list" "$sync" "$display" "$intervals" f32
        done
      done
      sync=$([ "$bn" = - ] && echo as_written || echo on)
      for precision in f32 tf32 bf16; do
        [ "$precision" = f32 ] ||
          time_ours $round "$net" "$file" "$batch" "${shape//,/ }" 0 "$sync" "$display" "$intervals" "$precision"
        [ -z "$torch" ] || [ "$net" = lenet_sync_bn ] ||
          time_torch $round "$net" "$batch" "${shape//,/ }" "$precision" "$display" "$intervals"
      done
    done <<<"$nets"
    longest=$((SECONDS - begin))
  done
  if [ -s "$times" ]; then
    note passed times "$(wc -l <"$times") runs timed in $((round - 1)) rounds"
  else
    note failed times "nothing could be timed"
  fi
}

# ---------------------------------------------------------------- report

# net, batch, devices, SyncBN, precision, ms and iterations per second of ours, ratio to one GPU, ms and ratio of PyTorch; - where
# there is none. Ratios are medians of the rounds', PyTorch's time over ours.
times_table() {
  awk -F'\t' '
    function med(list,   n, v, i, j, x) {
      n = split(list, v, " ")
      if (n == 0) return "-"
      for (i = 2; i <= n; ++i) { x = v[i] + 0; for (j = i - 1; j >= 1 && v[j] + 0 > x; --j) v[j + 1] = v[j]; v[j + 1] = x }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    function shown(x, form, factor) { return x == "-" ? "-" : sprintf(form, x * factor) }
    { if ($1 > rounds) rounds = $1 }
    $7 == "ours" { key = $2 "\t" $3 "\t" $4 "\t" $5 "\t" $6; if (!(key in all)) keys[++n] = key
      all[key] = all[key] " " $8; at[key, $1] = $8; if ($4 == "0") one[$2, $5, $6, $1] = $8; next }
    { torch_all[$2, $6] = torch_all[$2, $6] " " $8; torch[$2, $6, $1] = $8 }
    END { for (i = 1; i <= n; ++i) { key = keys[i]; split(key, k, "\t"); single = ratios = ""
        for (r = 1; r <= rounds; ++r) { if (!((key, r) in at)) continue
          if ((k[1], k[4], k[5], r) in one) single = single " " one[k[1], k[4], k[5], r] / at[key, r]
          if (k[3] == "0" && (k[1], k[5], r) in torch) ratios = ratios " " torch[k[1], k[5], r] / at[key, r] }
        ours = med(all[key])
        print key "\t" shown(ours, "%.3f", 1000) "\t" shown(ours == "-" ? "-" : 1 / ours, "%.1f", 1) "\t" shown(med(single), "%.2f", 1) \
          "\t" (ratios == "" ? "-" : shown(med(torch_all[k[1], k[5]]), "%.3f", 1000)) "\t" shown(med(ratios), "%.2f", 1) } }' "$times"
}

markdown_table() {  # header columns with | between; rows from stdin with tabs
  printf '| %s |\n' "$1"
  printf '%s\n' "$1" | sed 's/[^|]*/---/g; s/^/|/; s/$/|/'
  sed 's/|/\\|/g; s/\t/ | /g; s/^/| /; s/$/ |/'
}

count_results() { awk -F'\t' -v s="$1" -v step="${2:-}" '$2 == s && (step == "" || $1 == step) { ++n } END { print n + 0 }' "$results"; }

write_markdown() {
  echo "# GPU check: $verdict"
  echo
  echo "$(count_results passed) checks passed, $(count_results failed) failed, $(count_results skipped) skipped;" \
    "$started, $SECONDS s${quick:+. **Run with --quick: fewer iterations and nets, and no bounds on accuracy**}."
  if [ "$steps" != " $all_steps " ] && [ -n "$only" ]; then echo "Only these steps were requested: $only."; fi
  echo
  awk -F'\t' 'FILENAME == ARGV[1] { seconds[$1] = $2; next } { if (!($1 in seen)) { seen[$1]; order[++n] = $1 } ++c[$1, $2] }
    END { for (i = 1; i <= n; ++i) printf "%s\t%d\t%d\t%d\t%s\n", order[i], c[order[i], "passed"], c[order[i], "failed"], c[order[i], "skipped"], seconds[order[i]] }' \
    "$seconds_of" "$results" | markdown_table "step | passed | failed | skipped | seconds"
  if [ "$(count_results failed)" -gt 0 ]; then
    printf '\n## Failed\n\n'
    awk -F'\t' '$2 == "failed" { printf "- **%s: %s**: %s%s\n", $1, $3, $4, $5 == "" ? "" : " (" $5 ")" }' "$results"
  fi
  if [ "$(count_results skipped)" -gt 0 ]; then
    printf '\n## Skipped\n\n'
    awk -F'\t' '$2 == "skipped" { printf "- %s: %s: %s\n", $1, $3, $4 }' "$results"
  fi
  printf '\n## Environment\n\n'
  markdown_table "what | value" <"$environment"
  if [ -s "$folder/logs/topology.log" ]; then
    printf '\n```\n'
    cited "$folder/logs/topology.log"
    printf '```\n'
  fi
  if [ -s "$folder/logs/nvidia_smi_topology.log" ]; then
    printf '\n```\n'
    cited "$folder/logs/nvidia_smi_topology.log"
    printf '```\n'
  fi
  if [ -s "$tests" ]; then
    printf '\n## gpu_tests\n\nBy test in `report.json`; those that did not pass:\n\n'
    awk -F'\t' -v OFS='\t' '$2 != "passed" { print $1, $2, $4 }' "$tests" | markdown_table "test | result | message"
    echo
    awk -F'\t' -v OFS='\t' '{ suite = $1; sub(/\..*/, "", suite); if (!(suite in n)) order[++m] = suite; ++n[suite]; ++c[suite, $2]; ms[suite] += $3 }
      END { for (i = 1; i <= m; ++i) print order[i], c[order[i], "passed"] + 0, c[order[i], "failed"] + 0, c[order[i], "skipped"] + 0, ms[order[i]] }' "$tests" |
      markdown_table "suite | passed | failed | skipped | ms"
  fi
  if [ -s "$losses" ]; then
    printf '\n## N devices are one device\n\nLosses of the first and the last iteration, and the greatest relative difference'
    printf ' of any iteration from one CPU device in f64.\n\n'
    markdown_table "net | devices | precision | SyncBN | first loss | last loss | difference | at iteration | result" <"$losses"
  fi
  if [ -s "$accuracies" ]; then
    printf '\n## Accuracy\n\n'
    markdown_table "net | data | devices | iterations | accuracy | seconds, start included | result" <"$accuracies"
  fi
  if [ -s "$times" ]; then
    printf '\n## Times\n\nAn iteration is forward, backward and update on synthetic data; the batch is that of all devices.'
    printf ' Median of %s round(s), contenders in turn.' "$(awk -F'\t' '$1 > r { r = $1 } END { print r }' "$times")"
    printf ' *vs. one GPU* and *ratio*: the other time over ours, above 1 where ours is shorter.\n'
    printf 'PyTorch: eager, channels-last, fused SGD, in the same precision: *f32* without TF32, *tf32* with its convolutions and products in TF32, *bf16* by autocast.\n\n'
    times_table | markdown_table "net | batch | GPUs | SyncBN | precision | ms | iterations/s | vs. one GPU | PyTorch ms | ratio"
  fi
  if [ -s "$shares" ]; then
    printf '\nWhat an iteration consists of, in ms (`trainer time`):\n\n'
    markdown_table "net | devices | iteration | compute | exposed communication | hidden communication" <"$shares"
  fi
  if [ -s "$layers" ]; then
    printf '\nThe eight slowest layers of each net on one GPU, in ms (all are in `logs/layers_*.json`):\n\n'
    awk -F'\t' '{ printf "%s\t%s\t%.4f\t%.4f\t%.4f\n", $1, $2, $3, $4, $3 + $4 }' "$layers" | sort -t $'\t' -k1,1 -k5,5gr |
      awk -F'\t' '++n[$1] <= 8' | markdown_table "net | layer | forward | backward | both"
  fi
  printf '\n## All checks\n\n'
  awk -F'\t' -v OFS='\t' '{ print $1, $2, $3, $4, $5 }' "$results" | markdown_table "step | result | check | detail | log"
}

json_rows() {  # file, names of the columns; numbers stay numbers
  awk -F'\t' -v names="$2" '
    function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
    BEGIN { n = split(names, name, " "); printf "[" }
    { printf "%s\n  {", (NR > 1 ? "," : "")
      for (i = 1; i <= n; ++i) printf "%s\"%s\": %s", (i > 1 ? ", " : ""), name[i], ($i ~ /^-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[-+]?[0-9]+)?$/ ? $i : text($i))
      printf "}" }
    END { printf "]" }' "$1"
}

write_json() {
  printf '{"verdict": "%s", "quick": %s, "steps": "%s", "started": "%s", "seconds": %d, "minutes": %d,\n' \
    "$verdict" "$([ -n "$quick" ] && echo true || echo false)" "${steps//  / }" "$started" "$SECONDS" "$minutes"
  printf '"checks": %s,\n' "$(json_rows "$results" "step status check detail log")"
  printf '"environment": %s,\n' "$(json_rows "$environment" "name value")"
  printf '"seconds_of_steps": %s,\n' "$(json_rows "$seconds_of" "step seconds")"
  printf '"gpu_tests": %s,\n' "$(json_rows "$tests" "name status milliseconds message")"
  printf '"losses": %s,\n' "$(json_rows "$losses" "net devices precision sync_bn first last difference iteration status")"
  printf '"accuracies": %s,\n' "$(json_rows "$accuracies" "net data devices iterations accuracy seconds status")"
  printf '"times": %s,\n' "$(json_rows "$times" "round net batch devices sync_bn precision side seconds")"
  printf '"shares": %s,\n' "$(json_rows "$shares" "net devices iteration_ms compute_ms exposed_ms hidden_ms")"
  printf '"layers": %s}\n' "$(json_rows "$layers" "net layer forward_ms backward_ms")"
}

written=
finish() {
  [ -z "$written" ] || return
  written=yes
  if [ -n "$no_gpu" ]; then
    verdict="not run, no GPU can be used"
    code=2
  elif [ "$(count_results failed)" -gt 0 ]; then
    verdict=FAILED
    code=1
  elif [ "$(count_results passed)" -eq 0 ]; then
    verdict="nothing could run"
    code=2
  else
    verdict=passed
    code=0
  fi
  write_markdown >"$folder/report.md"
  write_json >"$folder/report.json"
}

at_exit() {
  if [ -z "$written" ]; then
    note failed gpu_check "ended early"
    finish
  fi
  rm -rf "$work"
}

interrupted() {
  trap '' INT TERM
  if [ -n "$child" ] || [ ${#children[@]} -gt 0 ]; then
    kill $child $watcher "${children[@]}" 2>/dev/null
    wait $child "${children[@]}" 2>/dev/null
    take_results_of_jobs
  fi
  note failed gpu_check "interrupted"
  finish
  printf 'gpu_check: interrupted; report: %s/report.md\n' "$folder"
  exit 1
}
trap at_exit EXIT
trap interrupted INT TERM

all=0
for step in $all_steps; do ! wanted "$step" || all=$((all + share_of[$step])); done
sum=0
for step in $all_steps; do
  # This step finds out how to reach the GPUs: the other steps need it.
  wanted "$step" || [ "$step" = environment ] || continue
  ! wanted "$step" || sum=$((sum + share_of[$step]))
  step_end=$((60 * minutes * (sum > 0 ? sum : all) / all))
  begin=$SECONDS
  printf '== %s\n' "$step"
  "${step}_step"
  row "$seconds_of" "$step" $((SECONDS - begin))
  [ -z "$no_gpu" ] || break
done
finish
if [ -n "$no_gpu" ]; then
  printf 'gpu_check: no GPU can be used: %s\n' "$no_gpu" >&2
else
  printf '\n%s: %d checks passed, %d failed, %d skipped.\n' "$verdict" "$(count_results passed)" "$(count_results failed)" "$(count_results skipped)"
fi
printf 'Report: %s/report.md\n' "$folder"
exit "$code"
