#include "check_layers.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/layers/filler.hpp"
#include "banyan/net/connections.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/splits.hpp"
#include "banyan/train/model.hpp"
#include "io/other_types.hpp"
#include "layers/python_program.hpp"
#include "named_settings.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

/// That a file which a layer names is not there, or `why` it cannot be looked at.
std::string about_missing(const std::string& origin, const caffe::LayerParameter& layer,
                          const std::string& path, const std::error_code& why) {
  return cat(origin, ": layer ", quoted(layer.name()), " (", layer.type(), "): ", quoted(path),
             why ? cat(" cannot be looked at (", why.message(), ")") : " does not exist here");
}

class LayerCheck {
 public:
  /// Of `unknown` blobs the shapes are not guessed.
  LayerCheck(const caffe::NetParameter& net, const CheckedSource& source, const CheckOptions& options,
             Findings& findings, const std::set<std::string>& unknown = {})
      : net_(net),
        source_(source),
        origin_(source.origin),
        options_(options),
        findings_(findings),
        unknown_(unknown) {}

  CheckedLayers run() {
    for (const std::string& problem :
         find_connection_problems(net_, source_.net, source_.text_has_problems)) {
      findings_.problem(cat(origin_, ": ", problem));
      checked_.whole = false;
    }
    for (const caffe::LayerParameter& layer : net_.layer())
      if (layer.type().empty()) checked_.whole = false;  // what it reads has not been looked at
    if (checked_.whole) net_ = insert_splits(net_);
    for (const caffe::LayerParameter& layer : net_.layer()) check_layer(layer);
    return checked_;
  }

 private:
  void check_layer(const caffe::LayerParameter& parameter) {
    Blobs inputs;
    bool known = true;
    for (const std::string& bottom : parameter.bottom()) {
      const auto found = blobs_.find(bottom);
      known = known && found != blobs_.end() && found->second != nullptr;
      if (known) inputs.push_back(found->second);
    }
    for (const std::string& top : parameter.top()) blobs_[top] = nullptr;
    const bool told = source_.told_layers.count({parameter.name(), parameter.type()}) > 0;
    if (told || (parameter.type().empty() && source_.text_has_problems)) {
      checked_.all_shapes = false;
      return;
    }
    remark_idle_settings(parameter);
    if (is_missing(parameter.type()) && !findings_.is_first(origin_, parameter.type())) {
      checked_.whole = checked_.all_shapes = false;  // named with the first layer of its type
      return;
    }
    if (lacks_matrix(parameter)) known = false;
    if (source_.unknown_transforms.count({parameter.name(), parameter.type()}) > 0 && !gives_first(parameter))
      known = false;  // what it makes may be of another shape
    caffe::LayerParameter layer = parameter;
    RefusedSettings refused;
    const bool has_blobs = has_its_blobs(layer);
    known = known && has_blobs;
    for (bool first = has_blobs;; first = false) {
      const std::string refusal = set_up(layer, inputs, known, !first);
      if (refusal.empty() || (!has_blobs && is_about_blobs(refusal))) break;
      if (refused.may_follow(layer, refusal)) {
        if (!refused.mend_again(layer, refusal)) break;
        continue;
      }
      if (has_unknown(parameter) && is_about_missing(layer, refusal))
        checked_.whole = false;  // an unknown field may be what is missing
      else
        complain(parameter, refusal + others_like(parameter));
      checked_.all_shapes = false;
      if (refused.mend(layer, refusal)) continue;
      if (!first) break;
    }
  }

  /// Has its text fields that are not known?
  bool has_unknown(const caffe::LayerParameter& layer) const {
    return source_.unknown_fields.count({layer.name(), layer.type()}) > 0;
  }

  /// Is there no such file here? Then a note says so.
  bool lacks_file(const caffe::LayerParameter& layer, const std::string& path) {
    std::error_code why;
    if (std::filesystem::exists(path, why)) return false;
    findings_.note(about_missing(origin_, layer, path, why));
    return true;
  }

  /// InfogainLoss's, whose form its scores decide.
  bool lacks_matrix(const caffe::LayerParameter& layer) {
    const std::string& path = layer.infogain_loss_param().source();
    return layer.type() == "InfogainLoss" && layer.bottom_size() < 3 && !path.empty() &&
           lacks_file(layer, path);
  }

  /// Has it as many inputs and outputs as it takes? If not, that is a problem, and it gets as many.
  bool has_its_blobs(caffe::LayerParameter& layer) {
    std::unique_ptr<Layer> made;
    try {
      made = make(layer);
    } catch (const Error&) {  // set_up() says it
      return true;
    }
    const Arity& arity = made->traits().arity;
    const int tops = output_count(layer, made->traits());
    try {
      check_arity(layer, arity, tops);
      return true;
    } catch (const Error& error) {
      complain(layer, error.message());
    }
    checked_.all_shapes = false;
    fit(*layer.mutable_bottom(), arity.min_inputs, arity.max_inputs);
    if (arity.outputs_equal_inputs)
      fit(*layer.mutable_top(), layer.bottom_size(), layer.bottom_size());
    else if (tops == layer.top_size())
      fit(*layer.mutable_top(), arity.min_outputs, arity.max_outputs);
    return false;
  }

  /// Of a layer whose blobs were made up they are no problem.
  static bool is_about_blobs(const std::string& refusal) {
    return refusal.find(" input") != std::string::npos || refusal.find(" output") != std::string::npos;
  }

  static void fit(google::protobuf::RepeatedPtrField<std::string>& names, int least, int most) {
    while (most >= 0 && names.size() > most) names.RemoveLast();
    while (names.size() < least) names.Add(cat("(missing ", names.size(), ")"));
  }

  std::unique_ptr<Layer> make(const caffe::LayerParameter& parameter) const {
    LayerOptions options;
    options.phase = options.net_phase = phase_of(net_.state().phase());
    if (parameter.has_phase()) options.phase = phase_of(parameter.phase());
    return make_layer(parameter, options);
  }

  Blobs make_outputs(const caffe::LayerParameter& parameter, int count) {
    Blobs outputs;
    for (int i = 0; i < count; ++i) {
      owned_.push_back(std::make_unique<Blob>());
      owned_.back()->name = i >= parameter.top_size() ? "(automatic)"
                            : is_inserted(parameter)  ? parameter.bottom(0)
                                                      : parameter.top(i);
      outputs.push_back(owned_.back().get());
    }
    return outputs;
  }

  /// Sets the layer up as far as shapes are `known`; returns what it refuses, "" if nothing. Of a layer that
  /// was mended, which is asked only for what else it refuses, the outputs' shapes stay unknown, and neither
  /// data nor programs are looked for again.
  std::string set_up(const caffe::LayerParameter& parameter, const Blobs& inputs, bool known, bool mended) {
    try {
      const std::unique_ptr<Layer> layer = make(parameter);
      layer->read_settings();
      const bool source = layer->traits().source;
      if (mended && (!known || source || layer->type() == "Python")) return "";
      if (!finds_program(*layer)) known = false;
      const int count = output_count(parameter, layer->traits());
      check_arity(parameter, layer->traits().arity, count);
      const Blobs outputs = make_outputs(parameter, count);
      if (known) known = source ? set_up_source(*layer, parameter, outputs) : set_up(*layer, inputs, outputs);
      for (const Parameter& p : layer->parameters()) {
        check_filler(p.filler, p.shape);
        if (p.filler.type() == "file" && !mended) static_cast<void>(lacks_file(parameter, p.filler.file()));
      }
      for (int i = 0; known && !mended && i < parameter.top_size(); ++i) {
        static_cast<void>(outputs[i]->shape.count());  // throws if there are too many
        if (unknown_.count(parameter.top(i)) > 0)
          checked_.all_shapes = false;
        else
          blobs_[parameter.top(i)] = outputs[i];
      }
      checked_.all_shapes = checked_.all_shapes && known;
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  /// A split that the file does not have: complaints name the blob.
  static bool is_inserted(const caffe::LayerParameter& layer) {
    return layer.type() == "Split" && layer.bottom_size() == 1 &&
           layer.name().starts_with(layer.bottom(0) + "_") && layer.name().ends_with("_split");
  }

  static bool is_missing(const std::string& type) {
    static const std::vector<std::string> types = registered_layer_types();
    return !type.empty() && !contains(types, type);
  }

  /// Names the further layers of a type that is not here.
  std::string others_like(const caffe::LayerParameter& first) const {
    if (!is_missing(first.type())) return "";
    std::vector<std::string> others;
    for (const caffe::LayerParameter& layer : source_.net.layer()) {
      const std::string name = quoted(layer.name());
      if (layer.type() == first.type() && layer.name() != first.name() && !contains(others, name) &&
          source_.told_layers.count({layer.name(), layer.type()}) == 0)
        others.push_back(name);
    }
    if (others.empty()) return "";
    constexpr std::size_t kNamed = 3;
    const std::size_t count = others.size(), more = count > kNamed + 1 ? count - kNamed : 0;
    others.resize(count - more);
    if (more > 0) others.push_back(cat(more, " more"));
    return cat("; so ", count > 1 ? "have " : "has ", join(others, ", ", " and "));
  }

  /// A module that is not here is missing as data may be: what is written can be right.
  bool finds_program(const Layer& layer) {
    if (layer.type() != "Python") return true;
    const caffe::LayerParameter& parameter = layer.parameter();
    if (parameter.bottom_size() == 0 && !given_shapes(parameter).empty()) return true;
    const std::string why = why_no_python(parameter.python_param().module());
    if (why.empty()) return true;
    findings_.note(cat(origin_, ": layer ", quoted(parameter.name()), " (Python) cannot run here: ", why,
                       ". The layers after it were checked without their shapes",
                       parameter.bottom_size() > 0 || parameter.top_size() == 0
                           ? ""
                           : cat("; --shape=", parameter.top(0), ":N,C,H,W gives one")));
    return false;
  }

  static bool set_up(Layer& layer, const Blobs& inputs, const Blobs& outputs) {
    layer.setup(inputs, outputs);
    layer.reshape(inputs, outputs);
    return true;
  }

  /// A program is to give them.
  static bool lacks_shapes(const caffe::LayerParameter& layer) {
    return layer.type() == "Input" && layer.top_size() > 0 && layer.input_param().shape_size() == 0;
  }

  /// Is the shape of the layer's first blob given?
  bool gives_first(const caffe::LayerParameter& layer) const {
    return layer.top_size() > 0 && options_.shapes.count(layer.top(0)) > 0;
  }

  /// Where both phases are checked: are the shapes that are given of a source all of blobs that a source of
  /// the other phase makes, whose first blob has one, while this one's has none?
  bool is_for_other_phase(const caffe::LayerParameter& source) const {
    const auto given = [&](const std::string& top) { return options_.shapes.count(top) > 0; };
    if (options_.phase || source.top_size() == 0 || gives_first(source)) return false;
    const auto is_of_other = [&](const std::string& top) {
      return std::any_of(source_.net.layer().begin(), source_.net.layer().end(), [&](const auto& layer) {
        return layer.bottom_size() == 0 && contains(layer.top(), top) && gives_first(layer) &&
               !keeps(net_.state(), layer);
      });
    };
    return std::all_of(source.top().begin(), source.top().end(),
                       [&](const std::string& top) { return !given(top) || is_of_other(top); });
  }

  std::vector<Shape> given_shapes(const caffe::LayerParameter& source) const {
    return is_for_other_phase(source) ? std::vector<Shape>()
                                      : stand_in_shapes(source, options_.shapes, &source_.net);
  }

  /// Has it a warning of its own, or an effect after all?
  static bool is_named_elsewhere(const caffe::LayerParameter& layer, const std::string& field) {
    const bool prefetches = field == "data_param" && layer.data_param().has_prefetch();  // as all sources
    return field == "quantization_param" || prefetches ||
           (field == "softmax_param" && layer.type() == "Normalize") ||
           (field == "transform_param" && layer.type() == "MemoryData");
  }
  /// Settings of another type, which no branch of this one reads: perhaps the type is not the one meant.
  void remark_idle_settings(const caffe::LayerParameter& layer) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    layer.GetReflection()->ListFields(layer, &fields);
    for (const auto* field : fields)
      if (field->message_type() != nullptr && !field->is_repeated() &&
          !is_named_elsewhere(layer, field->name()) && !io::may_be_setting_of(layer.type(), field->name()) &&
          findings_.is_first(origin_, cat(layer.type(), ".", field->name())))
        findings_.remark(cat(origin_, ": layer ", quoted(layer.name()), " (", layer.type(),
                             "): ", field->name(), " has no effect in a layer of this type"));
  }

  /// Does a loss of several numbers for each sample read it?
  bool takes_several(const std::string& labels) const {
    return std::any_of(source_.net.layer().begin(), source_.net.layer().end(), [&](const auto& layer) {
      return contains(layer.bottom(), labels) &&
             (layer.type() == "SigmoidCrossEntropyLoss" || layer.type() == "EuclideanLoss");
    });
  }

  /// False if the shapes of what it reads cannot be known.
  bool set_up_source(Layer& layer, const caffe::LayerParameter& parameter, const Blobs& outputs) {
    std::vector<Shape> shapes = given_shapes(parameter);
    for (const std::string& top : parameter.top()) findings_.add_source(top);
    const std::string source = missing_source(parameter);
    if (shapes.empty() && lacks_shapes(parameter)) {
      findings_.note(cat(origin_, ": layer ", quoted(parameter.name()), " (Input) gives no shape for ",
                         quoted(parameter.top(0)),
                         ", so the layers after it were checked without their shapes; --shape=",
                         parameter.top(0), ":N,C,H,W gives one"));
      return false;
    }
    if (shapes.empty() && source.empty()) {
      set_up(layer, {}, outputs);
      if (layer.traits().needs_values)
        findings_.remark(cat(origin_, ": layer ", quoted(parameter.name()), " (", parameter.type(),
                             "): a program of your own fills its blobs (Session::set_input), ",
                             quoted(outputs[0]->name), " with the shape ", outputs[0]->shape.to_string(),
                             "; the trainer does not"));
      if (parameter.type() == "Python" && parameter.python_param().layer().ends_with("SegDataLayer"))
        checked_.assumed[outputs[0]->name] = outputs[0]->shape;
      else if (parameter.type() == "Python")  // a project's own version of such a layer may make others
        for (int k = 1; k < parameter.top_size(); ++k) checked_.guessed.insert(parameter.top(k));
      return true;
    }
    if (shapes.empty()) {
      const std::string begin = cat(origin_, ": layer ", quoted(parameter.name()), " (", parameter.type(),
                                    "): ", why_no_source(parameter, source, " here"));
      const Shape shape = shape_of_missing(parameter);
      if (shape.axes() == 0) {
        findings_.note(cat(begin, ", so the layers after it were checked without their shapes; --shape=",
                           parameter.top(0), ":N,C,H,W gives one"));
        return false;
      }
      findings_.note(
          cat(begin, "; checked as if its images had ", shape[1], shape[1] == 1 ? " channel" : " channels"));
      shapes = stand_in_shapes(parameter, {{parameter.top(0), shape}}, &source_.net);
      const bool joints_unknown =
          parameter.type() == "DataHeatmap" && joints_of_missing(parameter, &source_.net) == 0;
      if (parameter.top_size() > 1 && (joints_unknown || is_divided(parameter.top(1))))
        unknown_.insert(parameter.top(1));
    }
    // What their files hold is not always labels; a list may name several classes of an image.
    const caffe::ImageDataParameter& images = parameter.image_data_param();
    const bool of_list = parameter.type() == "ImageData" && !images.has_label_dim() &&
                         !images.has_label_size() && parameter.top_size() > 1 &&
                         takes_several(parameter.top(1));
    if (parameter.type() == "HDF5Data" || parameter.type() == "Python" || of_list)
      for (int k = 1; k < parameter.top_size(); ++k)
        if (options_.shapes.count(parameter.top(k)) == 0) checked_.guessed.insert(parameter.top(k));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outputs[i]->shape = checked_.stand_ins[outputs[i]->name] = shapes[i];
    return true;
  }

  /// Does a Slice divide the labels of each sample, of which there are several then, it is not known how
  /// many?
  bool is_divided(const std::string& labels) const {
    return std::any_of(source_.net.layer().begin(), source_.net.layer().end(), [&](const auto& layer) {
      return layer.type() == "Slice" && contains(layer.bottom(), labels) &&
             (layer.slice_param().has_slice_dim() ? layer.slice_param().slice_dim() != 0
                                                  : layer.slice_param().axis() != 0);
    });
  }

  /// How many layers of the same name and type the file has before this one.
  int occurrence_of(const caffe::LayerParameter& layer) const {
    int before = 0;
    for (const caffe::LayerParameter& other : source_.net.layer()) {
      if (other.name() != layer.name() || other.type() != layer.type()) continue;
      if (rules_of(other) == rules_of(layer)) return before;
      ++before;
    }
    return 0;
  }
  static std::string rules_of(const caffe::LayerParameter& layer) {
    std::string rules;
    for (const auto& rule : layer.include()) rules += cat("+", rule.SerializeAsString());
    for (const auto& rule : layer.exclude()) rules += cat("-", rule.SerializeAsString());
    return rules;
  }

  void complain(const caffe::LayerParameter& layer, const std::string& message) {
    const std::size_t line =
        io::line_of_layer(source_.text, layer.name(), layer.type(), occurrence_of(layer));
    std::string place = origin_;
    if (line > 0) place += cat(":", line);
    const std::string who = cat("layer ", quoted(layer.name()));
    findings_.problem(message.find(who) != std::string::npos
                          ? cat(place, ": ", message)
                          : cat(place, ": ", who, " (", layer.type(), "): ", message));
    checked_.whole = false;
  }

  caffe::NetParameter net_;
  const CheckedSource& source_;
  const std::string& origin_;
  const CheckOptions& options_;
  Findings& findings_;
  CheckedLayers checked_;
  std::set<std::string> unknown_;       // blobs of sources with shapes that are not known
  std::map<std::string, Blob*> blobs_;  // nullptr: the shape is not known
  std::vector<std::unique_ptr<Blob>> owned_;
};

/// A complaint without the name of the file.
std::string in_file(const std::string& problem, const std::string& origin) {
  if (problem.rfind(origin + ":", 0) != 0) return problem;
  const std::string rest = problem.substr(origin.size() + 1);
  return rest.starts_with(' ') ? rest.substr(1) : "line " + rest;
}

/// The first problem before that is not there after.
std::string first_gone(const Findings& before, const Findings& after) {
  const auto gone = std::find_if(before.problems().begin(), before.problems().end(),
                                 [&](const std::string& text) { return !contains(after.problems(), text); });
  return gone == before.problems().end() ? "" : *gone;
}

}  // namespace

CheckedLayers check_layers(const caffe::NetParameter& net, const CheckedSource& source,
                           const CheckOptions& options, Findings& findings) {
  Findings first = findings;
  CheckedLayers checked = LayerCheck(net, source, options, first).run();
  if (first.problems().size() > findings.problems().size() && !checked.guessed.empty()) {
    Findings again = findings;
    CheckedLayers of_any = LayerCheck(net, source, options, again, checked.guessed).run();
    if (again.problems().size() < first.problems().size()) {
      std::vector<std::string> blobs;
      for (const std::string& blob : checked.guessed) blobs.push_back(quoted(blob));
      again.note(cat(source.origin, ": the shape of ", join(blobs, ", ", " and "),
                     " is not known here; --shape can give it (BLOB:N,C,H,W;...) with that of the layer's "
                     "first blob; with the one that is taken for it this would be wrong: ",
                     in_file(first_gone(first, again), source.origin)));
      first = std::move(again);
      checked = std::move(of_any);
    }
  }
  if (!checked.all_shapes) first.leave_open();
  if (checked.assumed.empty() || first.problems().size() == findings.problems().size()) {
    findings = std::move(first);
    return checked;
  }
  // What does not fit may fit images of another size.
  std::int64_t fitting = 0;
  Findings best = first;
  for (const std::int64_t side : {512, 480, 384, 504, 495, 510, 494, 473, 713, 321, 513, 224}) {
    CheckOptions other = options;
    for (const auto& [blob, shape] : checked.assumed) other.shapes[blob] = {shape[0], shape[1], side, side};
    Findings again = findings;
    CheckedLayers of_side = LayerCheck(net, source, other, again).run();
    if (!of_side.all_shapes) again.leave_open();
    if (again.problems().size() >= best.problems().size()) continue;
    fitting = side;
    best = std::move(again);
    of_side.assumed = std::exchange(checked.assumed, {});
    checked = std::move(of_side);
  }
  if (fitting > 0) {
    const auto& [blob, shape] = *checked.assumed.begin();
    best.note(cat(source.origin, ": checked as if ", quoted(blob), " were images of ", fitting, " x ",
                  fitting, " pixels; of ", shape[2], " x ", shape[3],
                  " this would be wrong: ", in_file(first_gone(first, best), source.origin)));
  }
  if (best.problems().size() > findings.problems().size())
    best.note(cat(source.origin, ": the size of the images of ", quoted(checked.assumed.begin()->first),
                  " is not known here; --shape=", checked.assumed.begin()->first, ":N,C,H,W gives it"));
  findings = std::move(best);
  return checked;
}

void drop_missing_files(caffe::NetParameter& net, const std::string& origin, Findings& findings) {
  drop_missing_files(
      net, [&](const caffe::LayerParameter& layer, const std::string& path, const std::error_code& why) {
        findings.note(about_missing(origin, layer, path, why) + "; checked as if it were not given");
      });
}

}  // namespace banyan
