// The texts of Caffe's log lines (BVLC master), which the log parsers in use rely on. Numbers have the
// default form of C++ streams: 6 significant digits. Leading blanks belong to the text.
#pragma once

#include <cstdint>
#include <string>

namespace banyan::log_lines {

/// `Solving LeNet`, then `Learning Rate Policy: inv`.
std::string solving(const std::string& net_name);
std::string policy(const std::string& lr_policy);
/// `Resuming from F`, then `SGDSolver: restoring history` (for every type of solver).
std::string resuming(const std::string& state_path);
std::string restoring_history();

/// `Iteration 100 (12.3457 iter/s, 8.1s/100 iters), loss = 0.123457`; `iterations` were done in `seconds`
/// since the line before. At the first line (0 iterations) the rate is 0.
std::string iteration(std::int64_t i, std::int64_t iterations, double seconds, int display, double loss);
/// `Iteration 10000, loss = 0.0021`: the line after the last iteration.
std::string last_iteration(std::int64_t i, double loss);
/// `    Train net output #0: loss = 0.12 (* 1 = 0.12 loss)`; the bracket only with a weight.
std::string train_output(int index, const std::string& name, double value, double loss_weight);
/// `Iteration 100, lr = 0.01`
std::string rate(std::int64_t i, double lr);

/// `Iteration 500, Testing net (#0)`
std::string testing(std::int64_t i, int net);
/// `Test loss: 0.31`
std::string test_loss(double loss);
/// `    Test net output #0: accuracy = 0.98`
std::string test_output(int index, const std::string& name, double value, double loss_weight);
/// `class3: 0.77`: the average precision of a class
std::string class_result(int label, double value);

std::string snapshot_model(const std::string& path, bool hdf5);
std::string snapshot_state(const std::string& path, bool hdf5);
/// `Test interrupted.`
std::string test_interrupted();
/// `Optimization stopped early.` or `Optimization Done.`
std::string finished(bool early);
/// `Gradient clipping: scaling down gradients (L2 norm A > B) by scale factor C`
std::string clipping(double norm, double threshold, double factor);
std::string finetuning(const std::string& weights);

/// `Batch 0, accuracy = 0.98`, `Loss: 0.1`, `accuracy = 0.98`: the test command.
std::string batch_value(int batch, const std::string& name, double value);
std::string mean_loss(double loss);
std::string mean_value(const std::string& name, double value, double loss_weight);

/// `     conv1<TAB>forward: 1.5 ms.`: the time command.
std::string layer_time(const std::string& layer, const char* direction, double milliseconds);
/// `Average Forward pass: 1.5 ms.`
std::string total_time(const std::string& what, double milliseconds);

}  // namespace banyan::log_lines
