// `trainer check`: everything that is wrong with solvers and nets, without their data.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/net/connections.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/fork_settings.hpp"
#include "banyan/net/net.hpp"
#include "banyan/net/precision.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/solver_nets.hpp"
#include "check_layers.hpp"
#include "named_settings.hpp"

namespace banyan {
namespace {

const std::string& type_name(const caffe::LayerParameter& layer) { return layer.type(); }
std::string type_name(const caffe::V1LayerParameter& layer) { return io::current_type_name(layer.type()); }

/// The layer that the complaint names first, of several with one name one of the type in the complaint; null
/// if there is none that has a type.
template <class Layers>
typename Layers::value_type* find_named(Layers& layers, const std::string& complaint) {
  typename Layers::value_type* found = nullptr;
  for (const bool by_type : {true, false}) {
    std::size_t first = std::string::npos;
    for (auto& layer : layers) {
      std::string words = "layer " + quoted(layer.name());
      if (by_type) words += cat(" (", type_name(layer), ")");
      const std::size_t place = layer.has_type() ? complaint.find(words) : std::string::npos;
      if (place < first) found = &layer;
      first = std::min(first, place);
    }
    if (found != nullptr) break;
  }
  return found;
}

void build_net(const caffe::NetParameter& net, Phase phase) {
  const auto device = make_device({DeviceKind::cpu, 0}, 1);
  Context context(*device);
  Activity activity(device->name());
  NetOptions how;
  how.phase = phase;
  how.level = net.state().level();
  how.stages.assign(net.state().stage().begin(), net.state().stage().end());
  how.shapes_only = true;
  const Net whole(net, how, context, activity);
}

/// What only the net as a whole can tell: names, shared parameters, precisions, checkpoints. One refusal
/// after the other, each without what was refused before.
void check_whole_net(caffe::NetParameter net, Phase phase, const std::map<std::string, Shape>& stand_ins,
                     const std::string& origin, Findings& findings) {
  if (!findings.attempt(origin, [&] { make_up_data(net, stand_ins, false); })) return;
  constexpr int kMost = 100;
  for (int round = 0; round < kMost; ++round) {
    std::string refusal;
    try {
      build_net(net, phase);
      return;
    } catch (const Error& error) {
      refusal = error.message();
    }
    findings.complain(origin, refusal);
    if (drop_refused(net, refusal)) continue;
    caffe::LayerParameter* layer = find_named(*net.mutable_layer(), refusal);
    if (layer == nullptr || layer->param_size() == 0) return;
    layer->clear_param();  // parameters that layers share
  }
}

bool makes_data(const caffe::LayerParameter& layer) {
  return layer.bottom_size() == 0 && layer.top_size() > 0;
}

bool has_source(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), makes_data);
}

/// `--stage=a or --stage=b`
std::string flags_of(const std::set<std::string>& stages) {
  std::vector<std::string> flags;
  for (const std::string& stage : stages) flags.push_back("--stage=" + stage);
  return join(flags, ", ", " or ");
}

/// Stages with which the net has data in the phase, as flags: "" if there are none.
std::string stages_with_data(const caffe::NetParameter& net, caffe::Phase phase) {
  std::set<std::string> stages;
  for (const caffe::LayerParameter& layer : net.layer())
    for (const caffe::NetStateRule& rule : layer.include())
      if (makes_data(layer) && (!rule.has_phase() || rule.phase() == phase))
        stages.insert(rule.stage().begin(), rule.stage().end());
  return flags_of(stages);
}

/// A net as a phase, level and stages see it.
class PhaseCheck {
 public:
  PhaseCheck(const CheckedSource& source, const caffe::NetState& state, const CheckOptions& options,
             Findings& findings)
      : source_(source), options_(options), findings_(findings) {
    filtered_ = findings.attempt(source.origin, [&] { net_ = filter_net(source.net, state); });
  }
  const caffe::NetParameter& net() const { return net_; }
  void run() {
    if (!filtered_) return;
    const Phase phase = phase_of(net_.state().phase());
    if (net_.layer_size() == 0) {
      findings_.problem(
          cat(source_.origin, ": the net has no layer for phase ", phase == Phase::train ? "TRAIN" : "TEST"));
      return;
    }
    drop_missing_files(net_, source_.origin, findings_);
    findings_.attempt(source_.origin, [&] {
      const CheckedLayers checked = check_layers(net_, source_, options_, findings_);
      if (checked.whole && checked.all_shapes)
        check_whole_net(net_, phase, checked.stand_ins, source_.origin, findings_);
      else
        read_precision(net_, DType::f32, Math::full);
    });
  }

 private:
  const CheckedSource& source_;
  const CheckOptions& options_;
  Findings& findings_;
  bool filtered_ = false;
  caffe::NetParameter net_;
};

/// All that the rules of the net's layers name.
std::set<std::string> stages_of(const caffe::NetParameter& net) {
  std::set<std::string> stages;
  const auto add = [&](const auto& rules) {
    for (const caffe::NetStateRule& rule : rules) {
      stages.insert(rule.stage().begin(), rule.stage().end());
      stages.insert(rule.not_stage().begin(), rule.not_stage().end());
    }
  };
  for (const caffe::LayerParameter& layer : net.layer()) {
    add(layer.include());
    add(layer.exclude());
  }
  return stages;
}

/// Phases, of those that are asked for, in which a net has data.
struct DataPhases {
  bool whole = true;  ///< every phase has some, and a layer for each blob that one reads
  bool sound = true;  ///< so has each of `phases`
  std::set<caffe::Phase> phases;
};

/// Is there a layer for each blob that one reads, but for blobs that none makes with any stage? Those are
/// wrong whatever the stages.
bool is_sound(const caffe::NetParameter& net, const caffe::NetParameter& whole) {
  std::set<std::string> tops;
  for (const caffe::LayerParameter& layer : whole.layer())
    for (int k = 0; k < layer.top_size(); ++k)
      if (k >= layer.bottom_size() || layer.top(k) != layer.bottom(k)) tops.insert(layer.top(k));
  caffe::NetParameter with_others;
  caffe::LayerParameter& others = *with_others.add_layer();
  others.set_type("Input");
  for (const caffe::LayerParameter& layer : net.layer())
    for (const std::string& bottom : layer.bottom())
      if (tops.insert(bottom).second) others.add_top(bottom);
  if (others.top_size() == 0) return find_connection_problems(net, whole, true).empty();
  with_others.MergeFrom(net);
  return find_connection_problems(with_others, whole, true).empty();
}

DataPhases data_phases(const caffe::NetParameter& whole, const std::vector<std::string>& stages,
                       const CheckOptions& options) {
  DataPhases found;
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    if (options.phase && phase_of(phase) != *options.phase) continue;
    const caffe::NetState state = state_of(whole, phase, options.level, stages);
    try {
      const caffe::NetParameter net = filter_net(whole, state);
      const bool data = has_source(net), sound = is_sound(net, whole);
      if (data) found.phases.insert(phase);
      found.whole = found.whole && data && sound;
      found.sound = found.sound && (sound || !data);
    } catch (const Error&) {
      found.whole = found.sound = false;
    }
  }
  return found;
}

/// The stages that are to be given in turns, where the net needs some and none was given, not by the net
/// itself either; {} is none. Empty: what was given is all.
struct StageTurns {
  std::vector<std::vector<std::string>> turns;
  std::set<caffe::Phase> phases;  ///< in which one of them has data
};

StageTurns stage_turns(const caffe::NetParameter& net, const CheckOptions& options) {
  StageTurns found;
  const std::set<std::string> stages = stages_of(net);
  if (!options.stages.empty() || net.state().stage_size() > 0 || stages.empty() ||
      data_phases(net, {}, options).whole)
    return found;
  std::vector<std::vector<std::string>> turns{{}};
  for (const std::string& stage : stages) turns.push_back({stage});
  for (const std::vector<std::string>& turn : turns) {
    const DataPhases sources = data_phases(net, turn, options);
    // What a turn lacks may be for other stages that are given with it.
    if (sources.phases.empty() || !sources.sound) continue;
    found.turns.push_back(turn);
    found.phases.insert(sources.phases.begin(), sources.phases.end());
  }
  if (found.turns.size() == 1 && found.turns[0].empty()) found.turns.clear();
  return found;
}

bool is_loss(const caffe::LayerParameter& layer) {
  if (std::any_of(layer.loss_weight().begin(), layer.loss_weight().end(), [](float w) { return w != 0; }))
    return true;
  try {
    return make_layer(layer, {})->traits().loss;
  } catch (const Error&) {  // the check's complaint
    return false;
  }
}

/// Does it read no data set and have no loss, and no layer for TRAIN alone?
bool is_only_run(const caffe::NetParameter& whole, const caffe::NetParameter& train,
                 const caffe::NetParameter& test) {
  const auto may_be_run = [&](const caffe::LayerParameter& layer) {
    return (!makes_data(layer) || layer.type() == "Input") && !is_loss(layer) &&
           (!keeps(train.state(), layer) || keeps(test.state(), layer));
  };
  return std::all_of(whole.layer().begin(), whole.layer().end(), may_be_run);
}

/// Has it data in TEST, but no layer for TEST alone?
bool is_only_trained(const caffe::NetParameter& whole, const caffe::NetParameter& train,
                     const caffe::NetParameter& test) {
  return has_source(test) &&
         std::none_of(whole.layer().begin(), whole.layer().end(), [&](const caffe::LayerParameter& layer) {
           return keeps(test.state(), layer) && !keeps(train.state(), layer);
         });
}

/// Both phases of a net's file, or the one that is asked for; returns a few words about it.
/// Nothing is said of phases without data that are `elsewhere`.
std::string check_phases(const CheckedSource& source, const CheckOptions& options,
                         const std::set<caffe::Phase>& elsewhere, Findings& findings) {
  std::vector<PhaseCheck> phases;
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    const caffe::NetState state = state_of(source.net, phase, options.level, options.stages);
    phases.emplace_back(source, state, options, findings);
  }
  // A file for one phase only has no data in the other.
  const bool several = has_source(phases[0].net()) == has_source(phases[1].net());
  const auto is_whole = [&](const PhaseCheck& phase) {
    return find_connection_problems(phase.net(), source.net).empty();
  };
  const bool train_whole = is_whole(phases[0]), test_whole = is_whole(phases[1]);
  const bool test_only = !options.phase && !train_whole && test_whole &&
                         is_only_run(source.net, phases[0].net(), phases[1].net());
  if (test_only)
    findings.note(cat(source.origin,
                      ": the net is whole in phase TEST only (--phase=TEST): layers that TRAIN "
                      "would need are for TEST, and it has neither a loss nor a data set; phase "
                      "TRAIN was not checked"));
  const bool train_only = !options.phase && train_whole && !test_whole &&
                          is_only_trained(source.net, phases[0].net(), phases[1].net());
  if (train_only)
    findings.note(
        cat(source.origin,
            ": the net is whole in phase TRAIN only (--phase=TRAIN): what others read in TEST, layers "
            "for TRAIN make, and no layer is for TEST; phase TEST was not checked"));
  for (PhaseCheck& phase : phases)
    if (options.phase && phase_of(phase.net().state().phase()) != *options.phase)
      continue;
    else if ((test_only && phase.net().state().phase() == caffe::TRAIN) ||
             (train_only && phase.net().state().phase() == caffe::TEST))
      continue;
    else if (several || options.phase || has_source(phase.net()))
      phase.run();
    else if (elsewhere.count(phase.net().state().phase()) == 0) {
      const caffe::Phase which = phase.net().state().phase();
      const std::string stages = stages_with_data(source.net, which);
      findings.note(cat(source.origin, ": phase ", which == caffe::TRAIN ? "TRAIN" : "TEST",
                        " has no layer that makes data and was not checked", stages.empty() ? "" : "; with ",
                        stages, stages.empty() ? "" : " it has"));
    }
  const int trained = phases[0].net().layer_size();
  return cat("a net of ", trained, trained == 1 ? " layer" : " layers", " to train, ",
             phases[1].net().layer_size(), " to test");
}

template <class Layer>
Layer without_settings(const Layer& layer) {
  Layer bare;
  bare.set_name(layer.name());
  *bare.mutable_bottom() = layer.bottom();
  *bare.mutable_top() = layer.top();
  *bare.mutable_include() = layer.include();
  *bare.mutable_exclude() = layer.exclude();
  return bare;
}

/// Layers that cannot be upgraded. Each is complained of until nothing more is wrong with it; it stays
/// without a type then: nothing follows from it.
class RefusedLayers {
 public:
  /// False if the complaint is about none of the net's layers.
  template <class Layers>
  bool take(Layers& layers, const std::string& complaint, const std::string& origin, Findings& findings) {
    auto* layer = find_named(layers, complaint);
    if (layer == nullptr) return false;
    RefusedSettings& refused = refused_[{layer->name(), type_name(*layer)}];
    const bool follows = refused.may_follow(*layer, complaint);
    if (!follows) findings.complain(origin, complaint);
    if (follows || !refused.mend(*layer, complaint)) *layer = without_settings(*layer);
    return true;
  }
  /// Takes their types away.
  template <class Layers>
  bool clear(Layers& layers) const {
    bool cleared = false;
    for (auto& layer : layers)
      if (layer.has_type() && refused_.count({layer.name(), type_name(layer)}) > 0) {
        layer = without_settings(layer);
        cleared = true;
      }
    return cleared;
  }

 private:
  std::map<std::pair<std::string, std::string>, RefusedSettings> refused_;  ///< by name and type
};

/// False if the whole net cannot be upgraded by `step`.
bool upgrade(caffe::NetParameter& net, const std::string& origin, Findings& findings,
             const std::function<void(caffe::NetParameter&)>& step) {
  RefusedLayers refused;
  for (;;) {
    caffe::NetParameter upgraded = net;
    try {
      step(upgraded);
    } catch (const Error& error) {
      const std::string complaint = error.message();
      if (refused.take(*net.mutable_layer(), complaint, origin, findings) ||
          refused.take(*net.mutable_layers(), complaint, origin, findings))
        continue;
      findings.complain(origin, complaint);
      return false;
    }
    const bool cleared = refused.clear(*net.mutable_layer()), old = refused.clear(*net.mutable_layers());
    if (cleared || old) continue;
    net = std::move(upgraded);
    return true;
  }
}

/// Of layers with rules that choose nothing each is a problem; of two lists `include` counts then.
void drop_wrong_rules(caffe::NetParameter& net, const std::string& origin, Findings& findings) {
  for (caffe::LayerParameter& layer : *net.mutable_layer())
    while (!findings.attempt(origin, [&] { check_rules(layer); })) {
      if (layer.exclude_size() == 0) layer.clear_include();
      layer.clear_exclude();
    }
}

/// A net with `layers` and `layer`, which is refused, with all of them as `layer` in the order of its text;
/// as it is where that is not known.
void unmix_formats(CheckedSource& source, Findings& findings) {
  caffe::NetParameter& net = source.net;
  const std::vector<bool> order = io::old_layers_in(source.text);
  const auto old_count = std::count(order.begin(), order.end(), true);
  if (net.layer_size() == 0 || old_count == 0 || old_count != net.layers_size() ||
      order.size() != static_cast<std::size_t>(net.layer_size() + net.layers_size()) ||
      io::needs_v0_upgrade(net))
    return;
  findings.attempt(source.origin, [&] { io::refuse_mixed_formats(net, source.origin); });
  caffe::NetParameter old = net;
  old.clear_layer();
  const auto step = [&](caffe::NetParameter& layers) {
    layers = io::upgrade_v1(io::upgrade_data_transform(std::move(layers)), source.origin);
  };
  if (!upgrade(old, source.origin, findings, step)) return;
  caffe::NetParameter all = net;
  all.clear_layer();
  all.clear_layers();
  int of_old = 0, of_new = 0;
  for (const bool is_old : order) *all.add_layer() = is_old ? old.layer(of_old++) : net.layer(of_new++);
  net = std::move(all);
}

/// Upgrades the net; false if that cannot be done.
bool make_current(CheckedSource& source, Findings& findings) {
  const std::size_t before = findings.told();
  unmix_formats(source, findings);
  const auto step = [&](caffe::NetParameter& net) { io::upgrade_net(net, source.origin); };
  if (!upgrade(source.net, source.origin, findings, step)) {
    findings.leave_open();
    return false;
  }
  source.text_has_problems = source.text_has_problems || findings.told() > before;
  drop_wrong_rules(source.net, source.origin, findings);
  if (findings.is_first(source.origin, "settings of forks")) warn_of_fork_settings(source.net);
  return true;
}

std::string check_net(CheckedSource source, const CheckOptions& options, Findings& findings) {
  if (!make_current(source, findings)) return "a net";
  const StageTurns stages = stage_turns(source.net, options);
  if (stages.turns.empty()) {
    const std::set<std::string> others = stages_of(source.net);
    if (!others.empty() && options.stages.empty() && source.net.state().stage_size() == 0 &&
        data_phases(source.net, {}, options).whole)
      findings.remark(cat(source.origin, ": it was checked without stages; with ", flags_of(others),
                          " it has other layers"));
    return check_phases(source, options, {}, findings);
  }
  std::vector<std::string> flags;
  for (const std::vector<std::string>& turn : stages.turns) {
    flags.push_back(turn.empty() ? "no stage" : "--stage=" + turn[0]);
    CheckOptions with = options;
    with.stages = turn;
    check_phases(source, with, stages.phases, findings);
  }
  findings.remark(
      cat(source.origin, ": stages choose its layers; checked with ", join(flags, ", ", " and ")));
  return "a net with stages";
}

/// By name and type.
using NamedLayers = std::set<std::pair<std::string, std::string>>;

/// What is known of a file's text, and so of the nets inside.
struct ReadText {
  NamedLayers told_layers = {};  ///< problems say that their type is not here or a value cannot be read
  NamedLayers unknown_fields = {}, unknown_transforms = {};  ///< as in CheckedSource
  bool has_problems = false;

  void tell(CheckedSource& source) const {
    source.told_layers = told_layers;
    source.unknown_fields = unknown_fields;
    source.unknown_transforms = unknown_transforms;
    source.text_has_problems = has_problems;
  }
};

ReadText report_text(const io::TextProblems& found, io::UnknownFields unknown, Findings& findings) {
  for (const std::string& text : found.texts)
    if (unknown == io::UnknownFields::ignore && contains(found.unknown_fields, text))
      findings.note(text + "; ignored");
    else
      findings.problem(text);
  ReadText read{found.guessed_layers, {}, {}, !found.texts.empty()};
  if (unknown == io::UnknownFields::ignore) return read;
  read.told_layers.insert(found.told_layers.begin(), found.told_layers.end());
  read.unknown_fields = found.unknown_in_layers;
  read.unknown_transforms = found.unknown_transforms;
  return read;
}

/// Is something of the text not read? Only the text is checked then.
bool is_incomplete(const io::TextProblems& problems, Findings& findings) {
  const bool incomplete = problems.lost || !problems.whole;
  if (incomplete) findings.leave_open();
  return incomplete;
}

/// A net of a solver, whose settings may be wrong.
void check_named_net(const NamedNet& named, const CheckOptions& options, const ReadText& text,
                     Findings& findings) {
  const std::string& origin = named.origin;
  findings.attempt(origin, [&] {
    CheckedSource source{origin, "", {}};
    if (named.inner != nullptr) {
      source.net = *named.inner;
      text.tell(source);
    } else {
      source.text = io::read_text_file(origin);
      const io::TextProblems problems = io::find_text_problems(source.text, origin, source.net);
      report_text(problems, options.unknown_fields, findings).tell(source);
      if (is_incomplete(problems, findings)) return;
    }
    if (!make_current(source, findings)) return;
    PhaseCheck(source, state_of(named, source.net), options, findings).run();
  });
}

std::string check_solver(caffe::SolverParameter solver, const CheckOptions& options, const ReadText& text,
                         const std::string& origin, Findings& findings) {
  if (options.phase)
    findings.note(cat(origin, ": a solver's nets have their own phases; --phase is for nets' files"));
  findings.attempt(origin, [&] { io::upgrade_solver(solver, origin); });
  if (options.max_iter) solver.set_max_iter(*options.max_iter);
  for (const std::string& problem : find_solver_problems(solver, origin)) findings.problem(problem);
  solver = without_idle_tests(std::move(solver));
  add_to_state(*solver.mutable_train_state(), options.level, options.stages);
  const NamedNets nets = named_nets(solver, static_cast<std::size_t>(solver.test_iter_size()), origin);
  if (nets.train) check_named_net(*nets.train, options, text, findings);
  for (const NamedNet& test : nets.tests) check_named_net(test, options, text, findings);
  if (solver.has_train_net() || solver.has_train_net_param()) {  // one too many, if there is another
    solver.clear_train_net();
    solver.clear_train_net_param();
    const NamedNets others = named_nets(solver, 0, origin);
    if (others.train) check_named_net(*others.train, options, text, findings);
  }
  return "a solver";
}

std::string check_file(const std::string& path, const CheckOptions& options, Findings& findings) {
  std::string what = "not readable";
  findings.attempt(path, [&] {
    const std::string text = io::read_text_file(path);
    caffe::SolverParameter solver;
    caffe::NetParameter net;
    const io::TextProblems as_net = io::find_text_problems(text, path, net);
    // Only a net has layers, though more fields of theirs than that may be unknown.
    bool is_net = net.layer_size() + net.layers_size() > 0;
    io::TextProblems as_solver;
    if (!is_net) {
      as_solver = io::find_text_problems(text, path, solver);
      if (solver.ByteSizeLong() + net.ByteSizeLong() == 0 && as_solver.whole && as_net.whole) {
        findings.problem(cat(path, ": expected the description of a net or a solver, found ",
                             as_net.texts.empty() ? "nothing" : "none of their fields"));
        return;
      }
      is_net = as_net.whole == as_solver.whole ? as_net.texts.size() < as_solver.texts.size() : as_net.whole;
    }
    const io::TextProblems& problems = is_net ? as_net : as_solver;
    const ReadText read = report_text(problems, options.unknown_fields, findings);
    what = is_net ? "a net" : "a solver";
    if (is_incomplete(problems, findings)) return;
    if (is_net && problems.guessed_elsewhere) {
      findings.leave_open();
      return;
    }
    CheckedSource source{path, text, std::move(net)};
    read.tell(source);
    what = is_net ? check_net(std::move(source), options, findings)
                  : check_solver(std::move(solver), options, read, path, findings);
  });
  return what;
}

}  // namespace

CheckReport check_files(const CheckOptions& options) {
  CheckReport report;
  std::set<std::string> sources;
  for (const std::string& path : options.files) {
    Findings findings;
    const std::string what = check_file(path, options, findings);
    report.files.push_back({path, what, findings.problems(), findings.notes()});
    for (const std::string& problem : findings.problems()) report.text += problem + "\n";
    for (const std::string& note : findings.notes()) report.text += "note: " + note + "\n";
    const auto found = static_cast<int>(findings.problems().size());
    report.text += cat(path, ": ", what, "; ",
                       found == 0   ? std::string("nothing wrong")
                       : found == 1 ? std::string("1 problem")
                                    : cat(found, " problems"),
                       findings.complete() ? "" : ", not everything could be checked", "\n");
    report.problems += found;
    sources.insert(findings.sources().begin(), findings.sources().end());
  }
  if (report.problems > 0) return report;  // a layer that is not read may make the blob
  for (const auto& [blob, shape] : options.shapes)
    if (sources.count(blob) == 0) {
      report.text += cat("--shape: no source layer of these files makes the blob ", quoted(blob), "\n");
      ++report.problems;
    }
  return report;
}

}  // namespace banyan
