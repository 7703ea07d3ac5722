#include "banyan/train/solver_settings.hpp"

#include <glog/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io/hdf5_file.hpp"

namespace banyan {

namespace {

constexpr std::pair<const char*, LearningRatePolicy> kPolicies[] = {
    {"cosine", LearningRatePolicy::cosine},
    {"exp", LearningRatePolicy::exp},
    {"exp10", LearningRatePolicy::exp10},
    {"fixed", LearningRatePolicy::fixed},
    {"inv", LearningRatePolicy::inv},
    {"multifixed", LearningRatePolicy::multifixed},
    {"multistep", LearningRatePolicy::multistep},
    {"plateau", LearningRatePolicy::plateau},
    {"poly", LearningRatePolicy::poly},
    {"sigmoid", LearningRatePolicy::sigmoid},
    {"step", LearningRatePolicy::step},
    {"triangular", LearningRatePolicy::triangular},
    {"triangular2", LearningRatePolicy::triangular2}};

constexpr std::pair<const char*, ops::UpdateRule> kRules[] = {
    {"SGD", ops::UpdateRule::sgd},         {"Nesterov", ops::UpdateRule::nesterov},
    {"SAG", ops::UpdateRule::sag},         {"AdaGrad", ops::UpdateRule::adagrad},
    {"RMSProp", ops::UpdateRule::rmsprop}, {"AdaDelta", ops::UpdateRule::adadelta},
    {"Adam", ops::UpdateRule::adam},       {"AdamW", ops::UpdateRule::adamw},
    {"LAMB", ops::UpdateRule::lamb}};

constexpr std::pair<const char*, MomentumPolicy> kMomentumPolicies[] = {
    {"fixed", MomentumPolicy::fixed}, {"opt", MomentumPolicy::opt}, {"poly", MomentumPolicy::poly}};

constexpr std::pair<const char*, AveragePrecision> kPrecisions[] = {
    {"101point", AveragePrecision::hundred_one_points},
    {"11point", AveragePrecision::eleven_points},
    {"Integral", AveragePrecision::integral},
    {"MaxIntegral", AveragePrecision::max_integral}};

template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.first);
  return names;
}

template <class Table, class Value>
const char* name_in(const Table& table, Value value) {
  return std::find_if(std::begin(table), std::end(table),
                      [&](const auto& entry) { return entry.second == value; })
      ->first;
}

/// nullptr for an unknown name.
template <class Table>
auto find_in(const Table& table, const std::string& name) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& entry) { return name == entry.first; });
  return found == std::end(table) ? nullptr : &found->second;
}

/// Checks the settings group by group and takes them over.
class Reader {
 public:
  /// With `problems`, a requirement that does not hold is added there instead of thrown.
  Reader(const caffe::SolverParameter& solver, const std::string& origin,
         std::vector<std::string>* problems = nullptr)
      : s_(solver), tested_(without_idle_tests(solver)), origin_(origin), problems_(problems) {}

  SolverSettings read() const {
    SolverSettings settings;
    settings.nets = nets();
    settings.test = tests();
    loop(settings);
    settings.snapshot = snapshots();
    settings.metrics = metrics();
    settings.update = update();
    forks();
    settings.rate = schedule();
    warn();
    settings.devices.gpu = s_.has_solver_mode() && s_.solver_mode() == caffe::SolverParameter::GPU;
    if (settings.devices.gpu || !s_.has_solver_mode())
      settings.devices.gpus.assign(s_.device_id().begin(), s_.device_id().end());
    settings.weights.assign(s_.weights().begin(), s_.weights().end());
    settings.ignore_shape_mismatch = s_.ignore_shape_mismatch();
    settings.text = text();
    return settings;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input(origin_, ": ", parts...);
  }
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    if (holds) return;
    if (problems_ == nullptr) refuse(parts...);
    problems_->push_back(cat(origin_, ": ", parts...));
  }

  caffe::SolverParameter nets() const {
    std::vector<std::string> given;
    if (s_.has_train_net_param()) given.push_back("train_net_param");
    if (s_.has_train_net()) given.push_back("train_net");
    if (s_.has_net_param()) given.push_back("net_param");
    if (s_.has_net()) given.push_back("net");
    require(!given.empty(), "no train net: give one of net, train_net, net_param, train_net_param");
    require(given.size() <= 1, "more than one train net: ", join(given, ", "), "; keep one");

    const int named = tested_.test_net_param_size() + tested_.test_net_size();
    const bool common = s_.has_net() || s_.has_net_param();
    if (common)
      require(tested_.test_iter_size() >= named, "each test net needs a test_iter: ", named, " test nets, ",
              tested_.test_iter_size(), " test_iter");
    else
      require(tested_.test_iter_size() == named, "there must be one test_iter for each test net: ", named,
              " test nets, ", tested_.test_iter_size(), " test_iter");
    require(tested_.test_state_size() == 0 || tested_.test_state_size() == tested_.test_iter_size(),
            "test_state must be absent or given once for each test net: ", tested_.test_iter_size(),
            " test nets, ", tested_.test_state_size(), " test_state");
    caffe::SolverParameter nets;
    if (s_.has_train_net_param()) *nets.mutable_train_net_param() = s_.train_net_param();
    if (s_.has_train_net()) nets.set_train_net(s_.train_net());
    if (s_.has_net_param()) *nets.mutable_net_param() = s_.net_param();
    if (s_.has_net()) nets.set_net(s_.net());
    *nets.mutable_test_net_param() = tested_.test_net_param();
    *nets.mutable_test_net() = tested_.test_net();
    if (s_.has_train_state()) *nets.mutable_train_state() = s_.train_state();
    *nets.mutable_test_state() = tested_.test_state();
    require(s_.sparse_mode() != caffe::SolverParameter::SPARSE_INC,
            "sparse_mode: SPARSE_INC (caffe-jacinto), which sets more and more small weights to 0, is not "
            "supported; "
            "SPARSE_UPDATE keeps those that are 0");
    require(!s_.threshold_weights(),
            "threshold_weights (caffe-jacinto), which sets weights below sparsity_threshold to 0, is not "
            "supported; sparse_mode: SPARSE_UPDATE keeps those that are 0");
    const bool keeps_zeros = s_.weight_connect_mode() == caffe::SolverParameter::WEIGHT_DISCONNECTED_ELTWISE;
    require(
        !s_.has_sparse_mode() || !s_.has_weight_connect_mode() ||
            keeps_zeros == (s_.sparse_mode() == caffe::SolverParameter::SPARSE_UPDATE),
        "weight_connect_mode is an older name of sparse_mode (caffe-jacinto), and the two contradict each "
        "other; give one of them");
    nets.set_sparse_mode(keeps_zeros ? caffe::SolverParameter::SPARSE_UPDATE : s_.sparse_mode());
    return nets;
  }

  TestSettings tests() const {
    for (int batches : s_.test_iter()) require(batches >= 0, "test_iter must be >= 0, not ", batches);
    require(s_.test_interval() >= 0, "test_interval must be >= 0, not ", s_.test_interval());
    require(tested_.test_iter().empty() || s_.test_interval() > 0, "test nets need test_interval > 0");
    TestSettings test;
    test.batches.assign(tested_.test_iter().begin(), tested_.test_iter().end());
    test.interval = s_.test_interval();
    test.initialization = s_.test_initialization();
    test.compute_loss = s_.test_compute_loss();
    if (const auto* precision = find_in(kPrecisions, s_.ap_version())) test.precision = *precision;
    test.per_class = s_.show_per_class_result();
    return test;
  }

  void loop(SolverSettings& settings) const {
    require(s_.has_max_iter(),
            "max_iter is missing: write it into the solver, or pass --max_iter=N, the number of iterations");
    require(s_.max_iter() >= 0, "max_iter must be >= 0, not ", s_.max_iter());
    require(s_.iter_size() >= 1, "iter_size must be >= 1, not ", s_.iter_size());
    require(s_.average_loss() >= 1, "average_loss must be >= 1, not ", s_.average_loss());
    require(s_.display() >= 0, "display must be >= 0, not ", s_.display());
    settings.max_iter = s_.max_iter();
    settings.iter_size = s_.iter_size();
    settings.average_loss = s_.average_loss();
    settings.display = s_.display();
    settings.debug_info = s_.debug_info();
    if (s_.random_seed() >= 0) settings.random_seed = static_cast<std::uint64_t>(s_.random_seed());
    if (s_.clip_gradients() >= 0) settings.clip_norm = s_.clip_gradients();
  }

  SnapshotSettings snapshots() const {
    require(s_.snapshot() >= 0, "snapshot must be >= 0, not ", s_.snapshot());
    SnapshotSettings snapshot;
    if (s_.snapshot_format() == caffe::SolverParameter::HDF5) {
      io::require_hdf5("snapshot_format: HDF5");
      snapshot.format = SnapshotFormat::hdf5;
    }
    snapshot.interval = s_.snapshot();
    snapshot.before_train = s_.snapshot_before_train();
    snapshot.after_train = s_.snapshot_after_train();
    snapshot.diff = s_.snapshot_diff();
    if (s_.has_snapshot_prefix()) snapshot.prefix = s_.snapshot_prefix();
    return snapshot;
  }

  MetricsSettings metrics() const {
    require(s_.metrics_histograms() >= 0, "metrics_histograms must be >= 0, not ", s_.metrics_histograms());
    require(s_.metrics_images() >= 0, "metrics_images must be >= 0, not ", s_.metrics_images());
    return {s_.metrics(), s_.metrics_histograms(), s_.metrics_images()};
  }

  std::string text() const {
    caffe::SolverParameter shown = s_;
    shown.clear_net_param();
    shown.clear_train_net_param();
    shown.clear_test_net_param();
    std::string text;
    google::protobuf::TextFormat::PrintToString(shown, &text);
    return text;
  }

  UpdateSettings update() const {
    using ops::UpdateRule;
    const std::string& type = s_.type();
    const std::vector<std::string> known = names_in(kRules);
    const UpdateRule* const found = find_in(kRules, type);
    require(found != nullptr, "unknown solver type ", quoted(type), did_you_mean(type, known),
            "; known types: ", join(known, ", "));
    const UpdateRule rule = found == nullptr ? UpdateRule::sgd : *found;
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
    if (rule == UpdateRule::adagrad || rule == UpdateRule::rmsprop)
      require(s_.momentum() == 0, "momentum cannot be used with ", type, "; found ", s_.momentum());
    if (rule == UpdateRule::rmsprop)
      require(s_.rms_decay() >= 0 && s_.rms_decay() < 1, "rms_decay must be in [0, 1), not ", s_.rms_decay());
    if (ops::corrects_bias(rule) || rule == UpdateRule::adadelta || rule == UpdateRule::sag)
      require(s_.momentum() < 1, "momentum must be in [0, 1) for ", type, ", not ", s_.momentum());
    if (ops::corrects_bias(rule))
      require(s_.momentum2() >= 0 && s_.momentum2() < 1, "momentum2 must be in [0, 1), not ", s_.momentum2());
    const std::string& decay = s_.regularization_type();
    require(decay == "L2" || decay == "L1" || decay == "WD", "unknown regularization_type ", quoted(decay),
            "; known: L1, L2, WD");
    require(decay != "L1" || (rule != UpdateRule::adamw && rule != UpdateRule::lamb),
            "regularization_type \"L1\" cannot be used with ", type,
            ", whose decay is not part of the gradient");
    require(decay != "WD" || rule == UpdateRule::sgd || rule == UpdateRule::sag,
            "regularization_type \"WD\" needs solver type SGD or SAG, not ", type,
            "; AdamW and LAMB decay in this way without it");
    UpdateSettings update;
    update.rule = rule;
    update.momentum = s_.momentum();
    update.momentum2 = s_.momentum2();
    update.rms_decay = s_.rms_decay();
    update.delta = s_.delta();
    update.weight_decay = s_.weight_decay();
    update.l1 = decay == "L1";
    update.decoupled = decay == "WD";
    update.disabled = s_.disabled_update();
    for (const auto& [name, value] : {std::pair{"breadth_decay", s_.breadth_decay()},
                                      {"kernel_shape_decay", s_.kernel_shape_decay()},
                                      {"block_group_decay", s_.block_group_decay()}})
      require(value >= 0 && std::isfinite(value), name, " must be a number >= 0, not ", value);
    update.breadth_decay = s_.breadth_decay();
    update.kernel_shape_decay = s_.kernel_shape_decay();
    update.block_group_decay = s_.block_group_decay();
    policies(update);
    layer_wise(update);
    return update;
  }

  /// NVIDIA's: momentum and weight decay that change during the run.
  void policies(UpdateSettings& update) const {
    const std::string& momentum = s_.momentum_policy();
    const MomentumPolicy* const found = find_in(kMomentumPolicies, momentum);
    require(found != nullptr, "unknown momentum_policy ", quoted(momentum),
            "; known policies: ", join(names_in(kMomentumPolicies), ", "));
    if (found != nullptr) update.momentum_policy = *found;
    const bool plain = update.rule == ops::UpdateRule::sgd || update.rule == ops::UpdateRule::nesterov ||
                       update.rule == ops::UpdateRule::sag;
    require(plain || update.momentum_policy == MomentumPolicy::fixed, "momentum_policy ", quoted(momentum),
            " needs solver type SGD, Nesterov or SAG");
    update.momentum_power = s_.momentum_power();
    if (s_.has_max_momentum() || update.momentum_policy == MomentumPolicy::poly)
      update.max_momentum = s_.max_momentum();
    const std::string& decay = s_.weight_decay_policy();
    require(decay == "fixed" || decay == "poly", "unknown weight_decay_policy ", quoted(decay),
            "; known policies: fixed, poly");
    update.weight_decay_grows = decay == "poly";
    update.weight_decay_power = s_.weight_decay_power();
    update.max_weight_decay = s_.max_weight_decay();
    require(
        (update.momentum_policy != MomentumPolicy::poly && !update.weight_decay_grows) || s_.max_iter() > 0,
        "momentum_policy and weight_decay_policy \"poly\" need max_iter > 0, found ", s_.max_iter());
  }

  void layer_wise(UpdateSettings& update) const {
    require(!s_.larc() || !s_.local_lr_auto(), "larc and local_lr_auto exclude each other; keep one");
    if (!s_.larc() && !s_.local_lr_auto()) return;
    require(update.rule == ops::UpdateRule::sgd || (s_.larc() && update.rule == ops::UpdateRule::sag),
            s_.larc() ? "larc needs solver type SGD or SAG" : "local_lr_auto needs solver type SGD");
    update.layer_wise_eta = s_.larc() ? s_.larc_eta() : s_.local_gw_ratio();
    require(update.layer_wise_eta > 0 && std::isfinite(update.layer_wise_eta),
            s_.larc() ? "larc_eta" : "local_gw_ratio", " must be > 0, not ", update.layer_wise_eta);
    update.layer_wise = LayerWise::intel;
    if (!s_.larc()) return;
    require(s_.larc_policy() == "scale" || s_.larc_policy() == "clip", "unknown larc_policy ",
            quoted(s_.larc_policy()), "; known policies: scale, clip");
    update.layer_wise = s_.larc_policy() == "clip" ? LayerWise::larc_clip : LayerWise::larc_scale;
    update.larc_turbo = s_.larc_turbo();
  }

  /// Settings of the forks that would change the training and are not supported here.
  void forks() const {
    const auto no = [&](bool found, const char* field, const char* advice) {
      require(!found, field, " is not supported", *advice ? "; " : "", advice);
    };
    no(s_.test_and_snapshot_last_epochs() > 0, "test_and_snapshot_last_epochs (NVIDIA)",
       "use test_interval and snapshot");
    no(s_.test_offset() != 0, "test_offset (Intel)",
       "it is not known how it moves the tests, which come at multiples of test_interval; remove it");
    const std::string& type = s_.eval_type();
    require(type == "classification" || type == "detection" || type == "segmentation", "unknown eval_type ",
            quoted(type), "; known types: classification, detection, segmentation");
    require(find_in(kPrecisions, s_.ap_version()) != nullptr, "unknown ap_version ", quoted(s_.ap_version()),
            "; known versions: ", join(names_in(kPrecisions), ", "));
  }

  LearningRatePolicy policy() const {
    const std::string& name = s_.lr_policy();
    const std::vector<std::string> known = names_in(kPolicies);
    require(!name.empty(), "lr_policy is missing; known policies: ", join(known, ", "));
    const LearningRatePolicy* const found = find_in(kPolicies, name);
    require(found != nullptr || name.empty(), "unknown lr_policy ", quoted(name), did_you_mean(name, known),
            "; known policies: ", join(known, ", "));
    return found == nullptr ? LearningRatePolicy::fixed : *found;
  }

  LearningRateSettings schedule() const {
    LearningRateSettings rate;
    rate.policy = policy();
    if (find_in(kPolicies, s_.lr_policy()) != nullptr) check_schedule(rate.policy);
    rate.base_lr = s_.base_lr();
    rate.min_lr = s_.min_lr();
    rate.gamma = s_.gamma();
    rate.power = s_.power();
    rate.stepsize = s_.stepsize();
    rate.stepvalues.assign(s_.stepvalue().begin(), s_.stepvalue().end());
    rate.plateau_windows.assign(s_.plateau_winsize().begin(), s_.plateau_winsize().end());
    rate.stage_rates.assign(s_.stagelr().begin(), s_.stagelr().end());
    rate.stage_ends.assign(s_.stageiter().begin(), s_.stageiter().end());
    rate.warmup_iter = s_.warmup_iter();
    rate.warmup_start_lr = s_.warmup_start_lr();
    rate.max_lr = s_.max_lr();
    rate.first_cycle = s_.start_lr_policy();
    rate.rampup_interval = s_.rampup_interval();
    rate.rampup_lr = s_.rampup_lr();
    if (s_.lr_scaling() == caffe::SolverParameter::LINEAR)
      rate.base_batch_size = s_.base_batch_size();
    else if (s_.base_batch_size() > 0)
      rate.stated_batch_size = s_.base_batch_size();
    return rate;
  }

  void check_schedule(LearningRatePolicy policy) const {
    using Policy = LearningRatePolicy;
    const std::string name = cat("lr_policy ", quoted(s_.lr_policy()));
    require(policy == Policy::multifixed || s_.has_base_lr(), "base_lr is missing (", name, " needs it)");
    require(s_.base_lr() >= 0, "base_lr must be a number >= 0, not ", s_.base_lr());
    const bool is_triangular = policy == Policy::triangular || policy == Policy::triangular2;
    if (policy == Policy::step || policy == Policy::exp10 || is_triangular)
      require(s_.stepsize() > 0, name, " needs stepsize > 0, found ", s_.stepsize());
    if (policy == Policy::poly || policy == Policy::cosine)
      require(s_.max_iter() > 0, name, " needs max_iter > 0, found ", s_.max_iter());
    if (policy == Policy::plateau)
      require(!s_.plateau_winsize().empty(), name, " needs at least one plateau_winsize");
    if (is_triangular) {
      require(s_.has_max_lr(), "max_lr is missing (", name, " needs it)");
      require(s_.max_lr() >= 0 && std::isfinite(s_.max_lr()), "max_lr must be a number >= 0, not ",
              s_.max_lr());
    }
    if (policy == Policy::multifixed)
      require(!s_.stagelr().empty() && s_.stagelr_size() == s_.stageiter_size(), name,
              " needs as many stagelr as stageiter, at least one; found ", s_.stagelr_size(), " and ",
              s_.stageiter_size());
    require(s_.warmup_iter() >= 0, "warmup_iter must be >= 0, not ", s_.warmup_iter());
    require(s_.rampup_interval() >= 0, "rampup_interval must be >= 0, not ", s_.rampup_interval());
    require(s_.warmup_iter() == 0 || s_.rampup_interval() == 0,
            "warmup_iter (linear) and rampup_interval (quadratic) exclude each other; keep one");
    require(
        s_.lr_scaling() != caffe::SolverParameter::LINEAR || s_.base_batch_size() > 0,
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
    LOG_IF(WARNING, s_.eval_type() == "segmentation")
        << origin_ << ": eval_type \"segmentation\": the result per class (show_per_class_result) is not "
        << "computed; tests show the means of their outputs";
    LOG_IF(WARNING, s_.has_richness())
        << origin_ << ": richness (yjxiong's limit of cuDNN's memory) has no effect";
    LOG_IF(WARNING, !s_.group_id().empty())
        << origin_ << ": group_id (yjxiong) has no effect: all devices are one group, as in its branch";
    LOG_IF(WARNING, s_.has_timeout_sec() || s_.has_timeout_nsec())
        << origin_
        << ": timeout_sec and timeout_nsec (caffe-parallel) have no effect: an update waits for all "
        << "devices";
    LOG_IF(WARNING, s_.solver_data_type() != caffe::FLOAT)
        << origin_
        << ": solver_data_type (NVIDIA) has no effect: history and weights have the type of the run, "
        << "which the flag --precision chooses";
    LOG_IF(WARNING, s_.insert_quantization_param() || s_.quantization_start_iter() > 0)
        << origin_
        << ": insert_quantization_param and quantization_start_iter (caffe-jacinto) have no effect: "
        << "everything computes in floating point";
    LOG_IF(WARNING, s_.larc_turbo() && !s_.larc())
        << origin_ << ": larc_turbo (NVIDIA) has no effect without larc: true";
    LOG_IF(WARNING, s_.disabled_update()) << origin_ << ": disabled_update: nothing will be learned";
    LOG_IF(WARNING, s_.test_interval() > 0 && s_.test_iter().empty())
        << origin_ << ": test_interval without test_iter: nothing will be tested";
    LOG_IF(WARNING, contains(s_.test_iter(), 0))
        << origin_ << ": test_iter: 0: such a test net is never tested, so it is not made";
  }

  const caffe::SolverParameter& s_;
  const caffe::SolverParameter tested_;
  const std::string& origin_;
  std::vector<std::string>* problems_;
};

/// Of everything but where files and devices are.
std::uint32_t checksum_of_rules(caffe::SolverParameter solver) {
  solver.clear_net();
  solver.clear_net_param();
  solver.clear_train_net();
  solver.clear_train_net_param();
  solver.clear_test_net();
  solver.clear_test_net_param();
  solver.clear_weights();
  solver.clear_snapshot_prefix();
  solver.clear_solver_mode();
  solver.clear_device_id();
  return io::checksum_of(solver.SerializeAsString());
}

}  // namespace

const char* name_of(LearningRatePolicy policy) { return name_in(kPolicies, policy); }
const char* name_of(ops::UpdateRule rule) { return name_in(kRules, rule); }

int histories_of(ops::UpdateRule rule) {
  return ops::corrects_bias(rule) || rule == ops::UpdateRule::adadelta ? 2 : 1;
}

SolverSettings solver_settings(const caffe::SolverParameter& solver, const std::string& origin) {
  SolverSettings settings = Reader(solver, origin).read();
  settings.checksum = checksum_of_rules(solver);
  return settings;
}

caffe::SolverParameter without_idle_tests(caffe::SolverParameter solver) {
  const int inner = solver.test_net_param_size(), named = inner + solver.test_net_size();
  const bool states = solver.test_state_size() == solver.test_iter_size();
  if (solver.test_iter_size() < named) return solver;  // which test_iter is whose is not known
  for (int k = solver.test_iter_size() - 1; k >= 0; --k) {
    if (solver.test_iter(k) != 0) continue;
    solver.mutable_test_iter()->erase(solver.test_iter().begin() + k);
    if (states) solver.mutable_test_state()->DeleteSubrange(k, 1);
    if (k < inner)
      solver.mutable_test_net_param()->DeleteSubrange(k, 1);
    else if (k < named)
      solver.mutable_test_net()->DeleteSubrange(k - inner, 1);
  }
  return solver;
}

std::vector<std::string> find_solver_problems(const caffe::SolverParameter& solver,
                                              const std::string& origin) {
  std::vector<std::string> problems;
  try {
    Reader(solver, origin, &problems).read();
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

SolverSettings load_solver(const std::string& path, io::UnknownFields unknown, std::optional<int> max_iter) {
  caffe::SolverParameter solver = io::read_solver_text(path, unknown);
  if (max_iter) solver.set_max_iter(*max_iter);
  io::upgrade_solver(solver, path);
  SolverSettings settings = solver_settings(solver, path);
  settings.unknown_fields = unknown;
  return settings;
}

void add_to_state(caffe::NetState& state, std::optional<int> level, const std::vector<std::string>& stages) {
  if (level) state.set_level(*level);
  for (const auto& stage : stages) state.add_stage(stage);
}

}  // namespace banyan
