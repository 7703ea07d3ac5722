#include "banyan/train/log_lines.hpp"

#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"

namespace banyan::log_lines {

namespace {

std::string weighted(double value, double weight) {
  return weight != 0 ? cat(" (* ", weight, " = ", weight * value, " loss)") : std::string();
}

}  // namespace

std::string solving(const std::string& net_name) { return "Solving " + net_name; }
std::string policy(const std::string& lr_policy) { return "Learning Rate Policy: " + lr_policy; }
std::string resuming(const std::string& state_path) { return "Resuming from " + state_path; }
std::string restoring_history() { return "SGDSolver: restoring history"; }

std::string iteration(std::int64_t i, std::int64_t iterations, double seconds, int display, double loss) {
  const double per_second = iterations > 0 && seconds > 0 ? static_cast<double>(iterations) / seconds : 0;
  return cat("Iteration ", i, " (", per_second, " iter/s, ", seconds, "s/", display,
             " iters), loss = ", loss);
}

std::string last_iteration(std::int64_t i, double loss) { return cat("Iteration ", i, ", loss = ", loss); }

std::string train_output(int index, const std::string& name, double value, double loss_weight) {
  return cat("    Train net output #", index, ": ", name, " = ", value, weighted(value, loss_weight));
}

std::string rate(std::int64_t i, double lr) { return cat("Iteration ", i, ", lr = ", lr); }

std::string testing(std::int64_t i, int net) { return cat("Iteration ", i, ", Testing net (#", net, ")"); }
std::string test_loss(double loss) { return cat("Test loss: ", loss); }
std::string test_output(int index, const std::string& name, double value, double loss_weight) {
  return cat("    Test net output #", index, ": ", name, " = ", value, weighted(value, loss_weight));
}

/// As SSD writes it.
std::string class_result(int label, double value) { return cat("class", label, ": ", value); }

std::string snapshot_model(const std::string& path, bool hdf5) {
  return cat("Snapshotting to ", hdf5 ? "HDF5" : "binary proto", " file ", path);
}
std::string snapshot_state(const std::string& path, bool hdf5) {
  return cat("Snapshotting solver state to ", hdf5 ? "HDF5" : "binary proto", " file ", path);
}
std::string test_interrupted() { return "Test interrupted."; }
std::string finished(bool early) { return early ? "Optimization stopped early." : "Optimization Done."; }
std::string clipping(double norm, double threshold, double factor) {
  return cat("Gradient clipping: scaling down gradients (L2 norm ", norm, " > ", threshold,
             ") by scale factor ", factor);
}
std::string finetuning(const std::string& weights) { return "Finetuning from " + weights; }

std::string batch_value(int batch, const std::string& name, double value) {
  return cat("Batch ", batch, ", ", name, " = ", value);
}
std::string mean_loss(double loss) { return cat("Loss: ", loss); }
std::string mean_value(const std::string& name, double value, double loss_weight) {
  return cat(name, " = ", value, weighted(value, loss_weight));
}

std::string layer_time(const std::string& layer, const char* direction, double milliseconds) {
  std::ostringstream out;
  out << std::setw(10) << layer << '\t' << direction << ": " << milliseconds << " ms.";
  return out.str();
}
std::string total_time(const std::string& what, double milliseconds) {
  return cat(what, ": ", milliseconds, " ms.");
}

}  // namespace banyan::log_lines
