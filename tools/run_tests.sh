#!/usr/bin/env bash
# Builds and runs the tests. Without options: the formatting (where clang-format 14 is installed), the tests of the
# optimized build, then the rooms where threads and memory are shared under the sanitizers; what takes longest goes by
# turns, of which each commit has one of four (or BANYAN_TURN=0, 1, 2, 3).
#   --all       the same, with all turns
#   --turn      says which turn this commit has
#   --release   the optimized build's tests only
#   --asan      all tests with AddressSanitizer and UndefinedBehaviorSanitizer only
#   --tsan      the tests of threads, and of emulated GPUs, with ThreadSanitizer only
#   --portable  the tests of operators and nets with kernels that are chosen at run time only
#   --fuzz      damaged files for every reader with AddressSanitizer only: a minute of each, or a million
#   --random_nets=N  nets drawn at random with the optimized build only: N for each of their tests
#   --format    checks the formatting of all sources only
#   -R REGEX    only tests whose names match
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
cores=$(nproc)
jobs=$((cores + 1))  # many tests mostly wait
threaded='^(device|parallel|mpi|train|data|observe|metrics|emulated|emulated_cuda)$'

alone='SimulateTest\.'  # they compare predicted with measured times

usage() { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

what=default
regex=
while [ $# -gt 0 ]; do
  case $1 in
    --all | --turn | --release | --asan | --tsan | --portable | --fuzz | --format) what=${1#--} ;;
    --random_nets=*)
      what=random_nets
      export BANYAN_RANDOM_NETS=${1#*=}
      [[ $BANYAN_RANDOM_NETS =~ ^[1-9][0-9]{0,8}$ ]] || { echo "run_tests: $1: expected a number from 1 to 999999999" >&2; exit 2; }
      ;;
    -R)
      [ $# -ge 2 ] || { echo "run_tests: -R needs a regular expression" >&2; exit 2; }
      regex=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "run_tests: unknown option $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

say() { printf '\n== %s\n' "$*"; }

# The compute capabilities of the GPUs that are here, such as 80;90.
gpus() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | grep -x '[0-9][0-9]*' | sort -un | paste -sd ';' || true
}

# A fresh folder compiles kernels for the GPUs that are here, or else without optimization and not to the end: nothing runs
# them.
configure() {  # preset
  [ ! -f "build/$1/build.ninja" ] || return 0
  local gpus
  gpus=$(gpus)
  local cuda=("-DBANYAN_CUDA_ARCHITECTURES=${gpus:-90-virtual}")
  [ -n "$gpus" ] || cuda+=(-DBANYAN_CUDA_OPTIMIZE=OFF)
  cmake --preset "$1" "${cuda[@]}"
}

build() {  # preset [targets]
  say "Build: $1"
  configure "$1"
  local preset=$1
  shift
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# Builds with what the tests that run meanwhile leave of the cores. What is missing when they are done, or has failed, is
# left to build().
ahead=
build_ahead() {  # "preset target..." ...
  (
    ninja=
    trap '[ -z "$ninja" ] || kill "$ninja"; wait; exit' TERM
    for words in "$@"; do
      read -ra words <<<"$words"
      configure "${words[0]}" || exit
      chrt --idle 0 ninja -C "build/${words[0]}" -j "$cores" "${words[@]:1}" &
      ninja=$!
      wait "$ninja" || exit
      ninja=
    done
  ) >/dev/null 2>&1 &
  ahead=$!
}
end_ahead() {
  [ -n "$ahead" ] || return 0
  kill "$ahead" 2>/dev/null || true
  wait "$ahead" || true
  ahead=
}
trap end_ahead EXIT

found=  # a test whose name matches
check() {  # preset [ctest options]
  local preset=$1
  shift
  say "Tests: $preset"
  local options=(--test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@")
  if [ -n "$regex" ]; then
    options+=(-R "$regex")
    if [[ $(ctest "${options[@]}" -N) == *"Total Tests: 0"* ]]; then
      echo "No test's name matches."
      return
    fi
  fi
  found=1
  ctest "${options[@]}"
}

# The optimized build's tests, those of rooms that have shards many in a process. CTest does not see which of them skipped
# themselves: what did is listed at the end.
check_shards() {  # [ctest options]
  local rooms
  rooms=$(ctest --test-dir build/release -C Shards -L '^shards$' -N | sed -n 's/.*: \([a-z_0-9]*\)\.shard_0$/\1/p' | paste -sd '|')
  check release -C Shards -LE "^($rooms${others})\$" "$@"
  say "Skipped"
  grep -A 1 ': Skipped$' build/release/Testing/Temporary/LastTest.log | sed -n "s|^$root/||; /: Skipped\$/{N;s/: Skipped\n/: /p}" | sort | uniq -c || true
}

# A minute of damaged files for each of these readers, so many at a time. Inputs that show a fault are left in the folder.
damage_files() {  # preset jobs targets
  (cd "build/$1" && xargs -P "$2" -n 1 bin/fuzz --mutations=1000000 --seconds=60 <<<"$3")
}

check_format() {
  say "Format"
  if ! command -v clang-format >/dev/null; then
    echo "run_tests: clang-format is missing (package clang-format)" >&2
    exit 1
  fi
  find include src tests tools \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -n 50 -P "$cores" clang-format --dry-run --Werror
  echo "All sources are formatted."
}

# libgomp is not instrumented: with more than one OpenMP thread ThreadSanitizer reports false races. Programs that a test
# stalls on purpose end immediately, with threads still running.
with_tsan() {
  local options="halt_on_error=1 history_size=6 report_thread_leaks=0 atexit_sleep_ms=0 suppressions=$root/tests/tsan_suppressions.txt"
  OMP_NUM_THREADS=1 TSAN_OPTIONS=${TSAN_OPTIONS:-$options} "$@"
}

# By its name, not by how many came before it: several may come together, and not all are tested.
commit=$(git rev-parse HEAD 2>/dev/null | head -c 8) || commit=$RANDOM
BANYAN_TURN=${BANYAN_TURN:-$((16#$commit % 4))}
export BANYAN_PART=$((16#$commit / 4 % 3))  # of the faults of tests/emulated_cuda/mutants.py
if [ "$what" = all ]; then
  BANYAN_TURN=all
  BANYAN_PART=all
fi
[[ $BANYAN_TURN =~ ^([0-3]|all)$ ]] || { echo "run_tests: BANYAN_TURN=$BANYAN_TURN: 0, 1, 2, 3 or all" >&2; exit 2; }
its_turn() { [ -n "$regex" ] || [ "$BANYAN_TURN" = all ] || [ "$BANYAN_TURN" = "$1" ]; }

[[ $what =~ ^(format|turn)$ ]] || tools/install_packages.sh
case $what in
  turn) echo "$BANYAN_TURN" ;;
  format) check_format ;;
  release)
    build release tests
    check release
    ;;
  asan)
    build asan tests
    check asan
    ;;
  tsan)
    build tsan tests
    with_tsan check tsan -L "$threaded"
    ;;
  portable)
    build portable test_ops test_net
    check portable -L '^(ops|net)$'
    ;;
  fuzz)
    build asan fuzz
    say "Tests: fuzz"
    targets=$(build/asan/bin/fuzz --list | cut -d ' ' -f 1 | grep -E -- "${regex:-.}") || {
      echo "run_tests: no target of fuzz matches $regex" >&2
      exit 2
    }
    damage_files asan "$cores" "$targets"
    ;;
  random_nets)
    build release test_net
    say "Tests: random nets"
    # Not by CTest, which limits their time.
    tests=$(build/release/bin/test_net --gtest_list_tests --gtest_filter='Random*' |
      awk '/^ / { print suite $1; next } { suite = $1 }' | grep -E -- "${regex:-.}") || {
      echo "run_tests: no test of random nets matches $regex" >&2
      exit 2
    }
    xargs -P "$cores" -I '{}' build/release/bin/test_net --gtest_filter='{}' <<<"$tests"
    ;;
  default | all)
    if clang-format --version 2>/dev/null | grep -q ' version 14\.'; then
      check_format
    else
      say "Format: not checked, clang-format 14 is not installed"
    fi
    # Turn 0: threads under ThreadSanitizer. The others: memory under AddressSanitizer, and 1: emulated GPUs that check
    # every access, 2: nets and files under AddressSanitizer, 3: whole nets. Labels give each some of what takes longest.
    tests=tests_unchecked
    tsan=
    asan=
    rooms='device|sanitizers'
    others=  # labels
    for turn in 0 1 2 3; do
      if ! its_turn $turn; then
        others+="|turn_$turn"
      elif [ $turn = 0 ]; then
        tsan='tsan-tree test_device test_parallel'
      else
        asan='asan test_device fuzz undefined'
      fi
    done
    if its_turn 1; then tests=tests; fi
    if its_turn 2; then
      asan+=' test_io test_net'
      rooms+='|io|net'
    fi
    if [ -z "$regex" ]; then
      if [ -z "$(gpus)" ]; then
        say "No GPU is here: emulated ones only"
        others+='|gpu'  # hundreds of tests, each of which would only say so
      fi
      [ "$BANYAN_TURN" = all ] || say "Turn $BANYAN_TURN of 0, 1, 2 and 3"
    fi
    build release "$tests"
    if [ -n "$regex" ]; then
      check release
    else
      check release -R "$alone"
      build_ahead ${tsan:+"$tsan"} ${asan:+"$asan"}
      check_shards -E "$alone"
      end_ahead
    fi
    if [ -n "$tsan" ]; then
      # shellcheck disable=SC2086 # several words
      build $tsan
      [ -z "$asan" ] || build_ahead "$asan"
      with_tsan check tsan-tree -L '^(device|parallel)$'
      end_ahead
    fi
    if [ -z "$asan" ] && [ -z "$regex" ]; then
      say "Tests: fuzz, without AddressSanitizer"
      damage_files release $((6 * cores + 1)) "$(build/release/bin/fuzz --list | cut -d ' ' -f 1)"
    fi
    if [ -n "$asan" ]; then
      # shellcheck disable=SC2086
      build $asan
      BANYAN_RANDOM_NETS=${BANYAN_RANDOM_NETS:-30} check asan -L "^($rooms)\$"
      jobs=$((6 * cores + 1))  # each for its time, in which it gets less done
      check asan -L '^fuzz$'
    fi
    ;;
esac
if [ -z "$found" ] && [ -n "$regex" ] && [[ ! $what =~ ^(fuzz|random_nets|format|turn)$ ]]; then
  echo "run_tests: no test's name matches $regex" >&2
  exit 2
fi
