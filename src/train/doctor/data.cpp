#include "data.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/filter.hpp"
#include "train/early_warnings.hpp"
#include "train/missing_data.hpp"

namespace banyan::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSample = 1000;

/// How a type of layer reads labels: how many classes there are, from its settings and its scores' shape.
struct LabelReader {
  const char* type;
  int label;  ///< which bottom
  std::int64_t (*classes)(const caffe::LayerParameter& layer, const Shape& scores);
  void (*ignored)(const caffe::LayerParameter& layer, std::vector<double>& values);
};

std::int64_t along(const Shape& scores, int axis) {
  const int axes = static_cast<int>(scores.axes());
  return axis >= -axes && axis < axes ? scores[scores.canonical_axis(axis)] : 0;
}
void of_loss(const caffe::LayerParameter& layer, std::vector<double>& values) {
  if (layer.loss_param().has_ignore_label()) values.push_back(layer.loss_param().ignore_label());
}
void none(const caffe::LayerParameter&, std::vector<double>&) {}
std::int64_t of_softmax(const caffe::LayerParameter& layer, const Shape& scores) {
  return along(scores, layer.softmax_param().axis());
}
std::int64_t of_sample(const caffe::LayerParameter&, const Shape& scores) {
  return scores.axes() > 0 ? scores.count(1) : 0;
}

/// With CTC's blank, which fills up the labels of a sequence.
std::int64_t of_sequence(const caffe::LayerParameter& layer, const Shape& scores) {
  return layer.bottom_size() == 2 ? along(scores, 2) : 0;
}

constexpr LabelReader kReaders[] = {
    {"SoftmaxWithLoss", 1, of_softmax, of_loss},
    {"SoftmaxWithLossOHEM", 1, of_softmax, of_loss},
    {"FocalLoss", 1, of_softmax, of_loss},
    {"SoftmaxFocalLoss", 1, of_softmax, of_loss},
    {"SoftmaxWithFocalLoss", 1, of_softmax, of_loss},
    {"WeightedSoftmaxWithLoss", 1, of_softmax, of_loss},
    {"OverlapSoftmaxWithLoss", 1, of_softmax, of_loss},
    {"GeneralContrastiveLoss", 1, of_sample, none},
    {"GeneralTripletLoss", 1, of_sample, none},
    {"LabelSpecificAdd", 1, of_sample, none},
    {"LabelSpecificRescale", 1, of_sample, none},
    {"CTCLoss", 2, [](const caffe::LayerParameter&, const Shape& scores) { return along(scores, 2); },
     [](const caffe::LayerParameter&, std::vector<double>& values) { values.push_back(-1); }},
    {"WarpCTCLoss", 1, of_sequence, none},
    {"CtcLoss", 1, of_sequence, none},
    {"LabelsequenceAccuracy", 1, of_sequence, none},
    {"Accuracy", 1,
     [](const caffe::LayerParameter& layer, const Shape& scores) {
       return along(scores, layer.accuracy_param().axis());
     },
     [](const caffe::LayerParameter& layer, std::vector<double>& values) {
       if (layer.accuracy_param().has_ignore_label()) values.push_back(layer.accuracy_param().ignore_label());
     }},
    {"SegAccuracy", 1, [](const caffe::LayerParameter&, const Shape& scores) { return along(scores, 1); },
     [](const caffe::LayerParameter& layer, std::vector<double>& values) {
       for (const int label : layer.seg_accuracy_param().ignore_label()) values.push_back(label);
     }},
    {"InfogainLoss", 1,
     [](const caffe::LayerParameter& layer, const Shape& scores) {
       return along(scores, layer.infogain_loss_param().axis());
     },
     of_loss},
    {"HingeLoss", 1, of_sample, none},
    {"MultinomialLogisticLoss", 1, of_sample, none},
    {"CenterLoss", 1,
     [](const caffe::LayerParameter& layer, const Shape&) {
       return static_cast<std::int64_t>(layer.center_loss_param().num_output());
     },
     none},
    {"CenterCosLoss", 1,
     [](const caffe::LayerParameter& layer, const Shape&) {
       return static_cast<std::int64_t>(layer.center_cos_loss_param().num_output());
     },
     none},
    {"LargeMarginInnerProduct", 1,
     [](const caffe::LayerParameter& layer, const Shape&) {
       return static_cast<std::int64_t>(layer.largemargin_inner_product_param().num_output());
     },
     none},
    {"MarginInnerProduct", 1,
     [](const caffe::LayerParameter& layer, const Shape&) {
       return static_cast<std::int64_t>(layer.margin_inner_product_param().num_output());
     },
     none},
};

/// Bytes of a folder's files, or of a file; 0 if nothing is there.
std::uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return fs::file_size(path, error);
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error)) bytes += entry.file_size(error);
  return bytes;
}

std::string labels_text(const data::LabelCheck& labels, const data::ClassOutput& asked) {
  if (labels.values == 0) return ", no labels that count";
  return cat(", labels ", labels.least, " to ", labels.most, " of ", asked.classes, " classes");
}

class DataExamination {
 public:
  DataExamination(const Nets& nets, const DataNeeds& needs, Findings& findings)
      : nets_(nets), needs_(needs), findings_(findings) {}

  void run() {
    for (const BuiltNet& built : nets_.all())
      for (const auto& layer : built.net->layers())
        if (auto* source = dynamic_cast<data::BatchSource*>(layer.get()))
          if (!needs_.stop || !needs_.stop()) examine(built, *layer, *source);
  }

 private:
  void examine(const BuiltNet& built, const Layer& layer, data::BatchSource& source) {
    const bool trains = built.test < 0;
    const std::string topic = cat(trains ? "train" : built.name, " ", quoted(layer.name()));
    findings_.attempt(topic, "make the data set again, or take the record out of it", [&] {
      const data::InputPipeline pipeline = source.pipeline();
      const std::uint64_t batch = pipeline.dealing.rule().batch;
      const std::uint64_t of_device =
          trains ? std::max<std::uint64_t>(
                       1, batch / static_cast<std::uint64_t>(pipeline.dealing.rule().devices))
                 : batch;
      data::RecordCheckOptions options{needs_.all_records ? 0 : kSample, needs_.threads,
                                       class_outputs(built, layer), counted(topic, pipeline.source->size())};
      // The same data set with the same settings is read once.
      const std::string key = pipeline.source->name() +
                              layer.parameter().transform_param().SerializeAsString() +
                              cat(trains, options.labels.size());
      if (seen_.insert(key).second)
        judge_records(topic, pipeline.source->name(), data::check_records(pipeline, options), options.labels,
                      of_device, findings_);
      if (trains)
        judge_order(topic, pipeline, options.labels, batch);
      else if (const auto coverage = test_coverage(pipeline.source->size(), batch,
                                                   needs_.test_iter.at(static_cast<std::size_t>(built.test))))
        findings_.warn(topic, coverage->text, coverage->advice);
      if (trains && batch > pipeline.source->size())
        findings_.warn(
            topic,
            cat("a batch of all devices has ", batch, " samples, the data set ", pipeline.source->size()),
            "a smaller batch_size, or fewer devices: records come more than once in a batch");
      judge_cache(topic, layer);
    });
  }

  /// The stop of the examination, which is asked before each record, by several threads.
  std::function<bool()> counted(const std::string& topic, std::uint64_t records) const {
    return [this, topic, records, count = std::make_shared<std::atomic<std::uint64_t>>(0)] {
      constexpr std::uint64_t kShowEvery = 1000;
      const std::uint64_t done = (*count)++;
      if (needs_.show && done % kShowEvery == 0)
        needs_.show(cat("reading ", topic, ": ", done, " of ",
                        needs_.all_records ? records : std::min(records, kSample)));
      return needs_.stop && needs_.stop();
    };
  }

  void judge_order(const std::string& topic, const data::InputPipeline& pipeline,
                   const std::vector<data::ClassOutput>& labels, std::uint64_t batch) {
    constexpr std::uint64_t kMostItems = 2000;
    if (labels.empty() || labels[0].classes < 2) return;
    std::vector<double> values;
    try {
      values = data::first_values(pipeline, labels[0].output, std::min(kMostItems, 20 * batch));
    } catch (const Error&) {  // a record that cannot be used has been found before
      return;
    }
    if (looks_sorted(values, batch))
      findings_.warn(
          topic, "its records come sorted by label: the first batches have one label each",
          "shuffle: true in the layer's settings, or make the data set with convert_imageset --shuffle");
  }

  /// Lists name files of an unknown size.
  void judge_cache(const std::string& topic, const Layer& layer) {
    const google::protobuf::Message* settings = nullptr;
    const std::string path = source_of(layer.parameter(), settings);
    if (path.empty() || !fs::is_directory(path) || !cached_.insert(path).second) return;
    const std::uint64_t bytes = bytes_of(path);
    if (bytes > needs_.usable_memory)
      findings_.warn(
          topic,
          cat(quoted(path), " has ", bytes_text(static_cast<double>(bytes)), ", more than the ",
              bytes_text(static_cast<double>(needs_.usable_memory)),
              " of usable memory: every epoch reads it from the disk"),
          "put it on a fast local disk, or store smaller images; `input` below shows whether it suffices",
          {{"bytes", cat(bytes)}});
  }

  const Nets& nets_;
  const DataNeeds& needs_;
  Findings& findings_;
  std::set<std::string> seen_, cached_;
};

}  // namespace

std::vector<data::ClassOutput> class_outputs(const BuiltNet& built, const Layer& source) {
  // Before splits were inserted the names are those of the file.
  const caffe::NetParameter net = filter_net(built.definition.net, built.definition.net.state());
  std::vector<data::ClassOutput> outputs;
  for (const caffe::LayerParameter& layer : net.layer())
    for (const LabelReader& reader : kReaders) {
      if (layer.type() != reader.type || layer.bottom_size() <= reader.label) continue;
      const auto& tops = source.parameter().top();
      const auto top = std::find(tops.begin(), tops.end(), layer.bottom(reader.label));
      const Blob* scores = built.net->find_blob(layer.bottom(0));
      if (top == tops.end() || scores == nullptr) continue;
      const auto output = static_cast<std::size_t>(top - tops.begin());
      std::vector<double> ignored;
      reader.ignored(layer, ignored);
      const std::int64_t classes = reader.classes(layer, scores->shape);
      if (classes < 1) continue;
      // Readers that disagree: the narrowest decides, and what one of them does not ignore counts.
      const auto known =
          std::find_if(outputs.begin(), outputs.end(), [&](const auto& one) { return one.output == output; });
      if (known == outputs.end()) {
        outputs.push_back({output, classes, ignored});
        continue;
      }
      known->classes = std::min(known->classes, classes);
      std::erase_if(known->ignored, [&](double value) {
        return std::find(ignored.begin(), ignored.end(), value) == ignored.end();
      });
    }
  return outputs;
}

bool looks_sorted(const std::vector<double>& values, std::uint64_t batch) {
  // In batches of two or three, equal labels are nothing unusual.
  const std::size_t length = std::max<std::size_t>(batch, 8);
  std::size_t batches = 0, of_one_label = 0;
  for (std::size_t first = 0; first + length <= values.size(); first += length) {
    ++batches;
    const auto* begin = values.data() + first;
    if (std::all_of(begin, begin + length, [&](double value) { return value == *begin; })) ++of_one_label;
  }
  return batches >= 3 && of_one_label * 10 >= batches * 8;
}

void judge_records(const std::string& topic, const std::string& source, const data::RecordCheck& check,
                   const std::vector<data::ClassOutput>& labels, std::uint64_t batch, Findings& findings) {
  const std::string looked = check.looked_at == check.records
                                 ? cat("all ", count_text(check.records, "record"))
                                 : cat(check.looked_at, " of ", count_text(check.records, "record"));
  bool good = true;
  if (check.unusable > 0) {
    good = false;
    std::vector<std::string> shown(
        check.complaints.begin(),
        check.complaints.begin() + std::min<std::ptrdiff_t>(3, std::ssize(check.complaints)));
    findings.fail(topic,
                  cat(source, ": ", check.unusable, " of ", check.looked_at,
                      " records cannot be used: ", join(shown, "; ")),
                  "make the data set again, or take them out of it", {{"unusable", cat(check.unusable)}});
  }
  if (!check.other_item.empty() && batch > 1) {
    good = false;
    findings.fail(topic,
                  cat(source, ": items differ in size, so no batch can be made of them: the first is ",
                      data::item_text(check.item.at(0)), ", ", check.other_item),
                  "crop_size, new_height and new_width, or batch_size: 1");
  }
  std::string text = cat(source, ": looked at ", looked);
  if (!check.item.empty()) text += ": " + data::item_text(check.item[0]);
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const data::LabelCheck& found = check.labels[k];
    text += labels_text(found, labels[k]);
    if (found.outside > 0) {
      good = false;
      findings.fail(
          topic,
          cat(source, ": ", found.outside, " of ", found.values, " labels are outside the ",
              labels[k].classes, " classes 0 to ", labels[k].classes - 1, "; ", found.first_outside),
          "correct num_output of the layer that makes the scores, the labels, or set ignore_label",
          {{"outside", cat(found.outside)}});
    } else if (found.values > 1 && found.least == found.most && labels[k].classes > 1) {
      good = false;
      findings.warn(topic, cat(source, ": all labels looked at are ", found.least),
                    "look at how the data set was made; --all looks at every record");
    }
  }
  if (good)
    findings.ok(
        topic, text,
        {{"records", cat(check.records)}, {"looked_at", cat(check.looked_at)}, {"bytes", cat(check.bytes)}});
}

void examine_data(const Nets& nets, const DataNeeds& needs, Findings& findings) {
  DataExamination(nets, needs, findings).run();
}

}  // namespace banyan::doctor
