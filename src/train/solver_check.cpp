#include "banyan/train/solver_check.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/train/learning_rate.hpp"

namespace banyan {

namespace {

class Checker {
 public:
  Checker(const caffe::SolverParameter& solver, const std::string& origin) : s_(solver), origin_(origin) {}

  void run() const {
    nets();
    loop();
    update();
    forks();
    schedule();
    warn();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input(origin_, ": ", parts...);
  }
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    if (!holds) refuse(parts...);
  }

  void nets() const {
    std::vector<std::string> given;
    if (s_.has_train_net_param()) given.push_back("train_net_param");
    if (s_.has_train_net()) given.push_back("train_net");
    if (s_.has_net_param()) given.push_back("net_param");
    if (s_.has_net()) given.push_back("net");
    require(!given.empty(), "no train net: give one of net, train_net, net_param, train_net_param");
    require(given.size() == 1, "more than one train net: ", join(given, ", "), "; keep one");

    const int named = s_.test_net_param_size() + s_.test_net_size();
    const bool common = s_.has_net() || s_.has_net_param();
    if (common)
      require(s_.test_iter_size() >= named, "each test net needs a test_iter: ", named, " test nets, ",
              s_.test_iter_size(), " test_iter");
    else
      require(s_.test_iter_size() == named, "there must be one test_iter for each test net: ", named,
              " test nets, ", s_.test_iter_size(), " test_iter");
    const int tests = test_net_count(s_);
    require(s_.test_state_size() == 0 || s_.test_state_size() == tests,
            "test_state must be absent or given once for each test net: ", tests, " test nets, ",
            s_.test_state_size(), " test_state");
    for (int iterations : s_.test_iter()) require(iterations > 0, "test_iter must be > 0, not ", iterations);
    require(s_.test_interval() >= 0, "test_interval must be >= 0, not ", s_.test_interval());
    require(tests == 0 || s_.test_interval() > 0, "test nets need test_interval > 0");
  }

  void loop() const {
    require(s_.has_max_iter(), "max_iter is missing");
    require(s_.max_iter() >= 0, "max_iter must be >= 0, not ", s_.max_iter());
    require(s_.iter_size() >= 1, "iter_size must be >= 1, not ", s_.iter_size());
    require(s_.average_loss() >= 1, "average_loss must be >= 1, not ", s_.average_loss());
    require(s_.display() >= 0, "display must be >= 0, not ", s_.display());
    require(s_.snapshot() >= 0, "snapshot must be >= 0, not ", s_.snapshot());
    require(s_.snapshot_format() == caffe::SolverParameter::BINARYPROTO,
            "snapshot_format: HDF5 is not supported; use BINARYPROTO");
  }

  void update() const {
    const std::string& type = s_.type();
    const auto known = solver_types();
    require(type != "SAG", "solver type \"SAG\" (NVIDIA) is not supported; known types: ", join(known, ", "));
    require(contains(known, type), "unknown solver type ", quoted(type),
            "; known types, nearest first: ", join(nearest_first(type, known), ", "));
    for (const auto& [name, value] : {std::pair{"base_lr", s_.base_lr()},
                                      {"momentum", s_.momentum()},
                                      {"momentum2", s_.momentum2()},
                                      {"weight_decay", s_.weight_decay()},
                                      {"delta", s_.delta()},
                                      {"rms_decay", s_.rms_decay()},
                                      {"gamma", s_.gamma()},
                                      {"power", s_.power()},
                                      {"clip_gradients", s_.clip_gradients()}})
      require(std::isfinite(value), name, " must be a finite number, not ", value);
    require(s_.momentum() >= 0, "momentum must be >= 0, not ", s_.momentum());
    if (type == "AdaGrad" || type == "RMSProp")
      require(s_.momentum() == 0, "momentum cannot be used with ", type, "; found ", s_.momentum());
    if (type == "RMSProp")
      require(s_.rms_decay() >= 0 && s_.rms_decay() < 1, "rms_decay must be in [0, 1), not ", s_.rms_decay());
    if (type == "Adam" || type == "AdaDelta")
      require(s_.momentum() < 1, "momentum must be in [0, 1) for ", type, ", not ", s_.momentum());
    if (type == "Adam")
      require(s_.momentum2() >= 0 && s_.momentum2() < 1, "momentum2 must be in [0, 1), not ", s_.momentum2());
    require(s_.regularization_type() == "L2" || s_.regularization_type() == "L1",
            "unknown regularization_type ", quoted(s_.regularization_type()), "; known: L1, L2");
  }

  /// Settings of the forks that would change the training and that this program does not have.
  void forks() const {
    const auto no = [&](bool found, const char* field, const char* advice) {
      require(!found, field, " is not supported", *advice ? "; " : "", advice);
    };
    no(s_.momentum_policy() != "fixed", "momentum_policy other than \"fixed\" (NVIDIA)", "");
    no(s_.weight_decay_policy() != "fixed", "weight_decay_policy other than \"fixed\" (NVIDIA)", "");
    no(s_.larc(), "larc (NVIDIA)", "remove it or set it to false");
    no(s_.larc_turbo(), "larc_turbo (NVIDIA)", "remove it or set it to false");
    no(s_.local_lr_auto(), "local_lr_auto (Intel)", "remove it or set it to false");
    no(s_.solver_data_type() != caffe::FLOAT, "solver_data_type other than FLOAT (NVIDIA)",
       "the flag --precision chooses the arithmetic");
    no(s_.disabled_update(), "disabled_update (Intel)", "base_lr: 0 trains without changing the weights");
    no(s_.test_and_snapshot_last_epochs() > 0, "test_and_snapshot_last_epochs (NVIDIA)",
       "use test_interval and snapshot");
    no(s_.test_offset() != 0, "test_offset (Intel)", "");
    no(s_.eval_type() != "classification", "eval_type other than \"classification\" (detection)", "");
  }

  void schedule() const {
    try {
      LearningRate(s_, 1, false);
    } catch (const Error& error) {
      refuse(error.message());
    }
    if (s_.lr_scaling() == caffe::SolverParameter::LINEAR && s_.base_batch_size() <= 0)
      refuse(
          "lr_scaling: LINEAR needs base_batch_size > 0, the samples per update that base_lr was chosen for");
  }

  void warn() const {
    const std::string& policy = s_.lr_policy();
    const bool uses_gamma = policy == "step" || policy == "exp" || policy == "inv" || policy == "multistep" ||
                            policy == "sigmoid" || policy == "plateau";
    LOG_IF(WARNING, uses_gamma && !s_.has_gamma())
        << origin_ << ": lr_policy " << quoted(policy) << " without gamma takes gamma: 0, as Caffe does";
    LOG_IF(WARNING, (policy == "poly" || policy == "inv") && !s_.has_power())
        << origin_ << ": lr_policy " << quoted(policy)
        << " without power takes power: 0 and so a constant rate, as Caffe does";
    LOG_IF(WARNING, policy == "multistep" && s_.stepvalue().empty())
        << origin_ << ": lr_policy \"multistep\" without a stepvalue is a constant rate";
    LOG_IF(WARNING, s_.test_interval() > 0 && test_net_count(s_) == 0)
        << origin_ << ": test_interval without test_iter: nothing will be tested";
  }

  const caffe::SolverParameter& s_;
  const std::string& origin_;
};

}  // namespace

caffe::SolverParameter load_solver(const std::string& path) {
  caffe::SolverParameter solver = io::read_solver_text(path);
  io::upgrade_solver(solver, path);
  check_solver(solver, path);
  return solver;
}

void check_solver(const caffe::SolverParameter& solver, const std::string& origin) {
  Checker(solver, origin).run();
}

std::vector<std::string> solver_types() {
  return {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"};
}

int histories_of(const std::string& solver_type) {
  return solver_type == "Adam" || solver_type == "AdaDelta" ? 2 : 1;
}

int test_net_count(const caffe::SolverParameter& solver) {
  const int named = solver.test_net_param_size() + solver.test_net_size();
  const bool common = solver.has_net() || solver.has_net_param();
  return common ? std::max(named, solver.test_iter_size()) : named;
}

void apply_command_line_state(caffe::SolverParameter& solver, std::optional<int> level,
                              const std::vector<std::string>& stages) {
  auto& state = *solver.mutable_train_state();
  if (level) state.set_level(*level);
  for (const auto& stage : stages) state.add_stage(stage);
}

}  // namespace banyan
