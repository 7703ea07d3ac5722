#!/usr/bin/env bash
# From a fresh machine to a trained net: installs what is missing, builds, draws a data set of digits, and trains a LeNet
# with synchronized batch normalization on all GPUs, or on two virtual CPU devices. Can be run again: it continues where
# it stopped. Everything it makes is in build/ and run/.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bin=build/release/bin
data=run/digits
prefix=$data/lenet_sync_bn
solver=models/digits/solver.prototxt
log=$data/training.log
last=$(awk '$1 == "max_iter:" { print $2 }' "$solver")
final=${prefix}_iter_$last

say() { printf '\n== %s\n' "$*"; }

say "1/4 Packages"
tools/install_packages.sh

say "2/4 Build (some minutes the first time)"
[ -f build/release/build.ninja ] || cmake --preset release
cmake --build --preset release --target trainer make_digits convert_mnist convert_imageset

say "3/4 Data: drawn digits in $data"
if [ -f "$data/complete" ]; then
  echo "Already there."
else
  rm -rf "$data/train_lmdb" "$data/test_lmdb"
  mkdir -p "$data"
  "$bin/make_digits" --train=10000 --test=2000 "$data"
  touch "$data/complete"
fi

say "4/4 Training"
devices=--cpu=2
if "$bin/trainer" device_query --gpu=all >/dev/null 2>&1; then devices=--gpu=all; fi
if [ -f "$final.solverstate" ] && [ -f "$final.caffemodel" ]; then
  echo "Already trained; remove $data to start again."
else
  start=$SECONDS
  "$bin/trainer" --solver="$solver" "$devices" --snapshot=latest 2>&1 | tee -a "$log"
  echo "Trained in $((SECONDS - start)) s on ${devices#--}."
fi

accuracy=$(awk '/Test net output #[0-9]+: accuracy = / { a = $NF } END { print a }' "$log" 2>/dev/null || true)
cat <<END

Test accuracy: ${accuracy:-see $log}
Snapshot:      $final.caffemodel (Caffe's tools read it too)
               $final.solverstate (training goes on from it)
Log:           $log

What to try next (programs are in $bin):
  trainer test --model=models/digits/train_test.prototxt --weights=$final.caffemodel --iterations=20
  trainer time --model=models/digits/train_test.prototxt
  trainer --solver=$solver --cpu=4 --sync_bn=off     (overwrites the snapshot)
  trainer summary --model=models/resnet50/train.prototxt
  trainer --help
Your own nets: trainer --solver=YOURS.prototxt ${devices}
The tests: tools/run_tests.sh
END
