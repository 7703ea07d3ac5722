// `trainer check`: everything that is wrong with solvers and nets, without their data.
#include <map>
#include <optional>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/net.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/solver_nets.hpp"
#include "check_layers.hpp"

namespace banyan {
namespace {

constexpr std::size_t kLargestText = std::size_t{256} << 20;

/// What only the net as a whole can tell: names, shared parameters, precisions, checkpoints.
void check_whole_net(caffe::NetParameter net, Phase phase, const std::map<std::string, Shape>& stand_ins,
                     const std::string& origin, Findings& findings) {
  findings.attempt(origin, [&] {
    make_up_data(net, stand_ins);
    const auto device = make_device({DeviceKind::cpu, 0}, 1, DType::f32);
    Context context(*device);
    Activity activity(device->name());
    NetOptions how;
    how.phase = phase;
    how.level = net.state().level();
    how.stages.assign(net.state().stage().begin(), net.state().stage().end());
    how.shapes_only = true;
    const Net whole(net, how, context, activity);
  });
}

/// Returns how many layers the phase has.
int check_phase(const caffe::NetParameter& net, caffe::NetState state, const CheckOptions& options,
                const std::string& origin, const std::string& text, Findings& findings) {
  int layers = 0;
  findings.attempt(origin, [&] {
    const caffe::NetParameter filtered = filter_net(net, state);
    layers = filtered.layer_size();
    if (layers == 0) return;
    const CheckedLayers checked = check_layers(filtered, options, origin, text, findings);
    if (checked.whole && checked.all_shapes)
      check_whole_net(filtered, state.phase() == caffe::TRAIN ? Phase::train : Phase::test, checked.stand_ins,
                      origin, findings);
  });
  return layers;
}

caffe::NetState state_of(caffe::Phase phase, const CheckOptions& options) {
  caffe::NetState state;
  state.set_phase(phase);
  state.set_level(options.level);
  for (const std::string& stage : options.stages) state.add_stage(stage);
  return state;
}

/// Both phases of a net's file; returns a few words about it.
std::string check_net(caffe::NetParameter net, const CheckOptions& options, const std::string& origin,
                      const std::string& text, Findings& findings) {
  if (!findings.attempt(origin, [&] { io::upgrade_net(net, origin); })) return "a net";
  const int train = check_phase(net, state_of(caffe::TRAIN, options), options, origin, text, findings);
  const int test = check_phase(net, state_of(caffe::TEST, options), options, origin, text, findings);
  if (train == 0 && test == 0) findings.problem(cat(origin, ": the net has no layer"));
  return cat("a net of ", train, " layers to train, ", test, " to test");
}

std::string read_text(const std::string& path) { return io::read_file(path, kLargestText); }

/// A net that a solver names.
void check_solver_net(const std::string& path, caffe::Phase phase, const caffe::NetState& of_solver,
                      const CheckOptions& options, Findings& findings) {
  findings.attempt(path, [&] {
    const std::string text = read_text(path);
    caffe::NetParameter net;
    for (const std::string& problem : io::find_text_problems(text, path, net)) findings.problem(problem);
    io::upgrade_net(net, path);
    caffe::NetState state = state_of(phase, options);
    state.MergeFrom(net.state());
    state.MergeFrom(of_solver);
    if (check_phase(net, state, options, path, text, findings) == 0)
      findings.problem(
          cat(path, ": the net has no layer for phase ", phase == caffe::TRAIN ? "TRAIN" : "TEST"));
  });
}

std::string check_solver(caffe::SolverParameter solver, const CheckOptions& options,
                         const std::string& origin, Findings& findings) {
  findings.attempt(origin, [&] { io::upgrade_solver(solver, origin); });
  std::vector<std::string> problems;
  const std::optional<SolverSettings> settings = find_solver_problems(solver, origin, problems);
  for (const std::string& problem : problems) findings.problem(problem);
  const auto train_file = solver.has_train_net() ? solver.train_net() : solver.net();
  if (!train_file.empty())
    check_solver_net(train_file, caffe::TRAIN, solver.train_state(), options, findings);
  for (int k = 0; k < solver.test_iter_size(); ++k) {
    const std::string& file = k < solver.test_net_size() ? solver.test_net(k) : solver.net();
    const auto state = k < solver.test_state_size() ? solver.test_state(k) : caffe::NetState();
    if (!file.empty()) check_solver_net(file, caffe::TEST, state, options, findings);
  }
  // Nets inside the solver's file.
  if (settings && train_file.empty())
    findings.attempt(origin, [&] {
      const SolverNet net = train_net_of(*settings, origin);
      check_phase(net.net, net.net.state(), options, net.origin, "", findings);
    });
  return "a solver";
}

std::string check_file(const std::string& path, const CheckOptions& options, Findings& findings) {
  std::string what = "not readable";
  findings.attempt(path, [&] {
    const std::string text = read_text(path);
    caffe::SolverParameter solver;
    caffe::NetParameter net;
    const std::vector<std::string> as_solver = io::find_text_problems(text, path, solver);
    const std::vector<std::string> as_net = io::find_text_problems(text, path, net);
    const bool is_net = as_net.size() < as_solver.size() ||
                        (as_net.size() == as_solver.size() && net.layer_size() + net.layers_size() > 0);
    for (const std::string& problem : is_net ? as_net : as_solver) findings.problem(problem);
    what = is_net ? check_net(std::move(net), options, path, text, findings)
                  : check_solver(std::move(solver), options, path, findings);
  });
  return what;
}

}  // namespace

CheckReport check_files(const CheckOptions& options) {
  CheckReport report;
  for (const std::string& path : options.files) {
    Findings findings;
    const std::string what = check_file(path, options, findings);
    for (const std::string& problem : findings.problems()) report.text += problem + "\n";
    for (const std::string& note : findings.notes()) report.text += "note: " + note + "\n";
    const auto found = static_cast<int>(findings.problems().size());
    report.text += cat(path, ": ", what, "; ",
                       found == 0   ? std::string("nothing wrong")
                       : found == 1 ? std::string("1 problem")
                                    : cat(found, " problems"),
                       findings.notes().empty() ? "" : ", not everything could be checked", "\n");
    report.problems += found;
  }
  return report;
}

}  // namespace banyan
