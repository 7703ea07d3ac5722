#include "banyan/data/documents.hpp"

#include <climits>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/weighted_choice.hpp"

namespace banyan::data {

namespace {

using google::protobuf::FieldDescriptor;

bool is_number(const FieldDescriptor& field) {
  return !field.is_repeated() && (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
                                  field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT);
}

/// The number of a DocumentDatum that a label's name means; nullptr: there is none.
const FieldDescriptor* document_field(const std::string& name) {
  // The branch's shorter names.
  const bool shorter = name == "is_graphical" || name == "is_historical" || name == "is_textual";
  const auto* field =
      caffe::DocumentDatum::descriptor()->FindFieldByName(shorter ? name + "_document" : name);
  return field != nullptr && is_number(*field) ? field : nullptr;
}

/// Which database each batch is read from, and where. Goes on from batch to batch; an earlier one begins at
/// the first batch again.
class DocumentSchedule {
 public:
  DocumentSchedule(const std::vector<std::shared_ptr<RecordSource>>& databases,
                   const caffe::DocDataParameter& settings, std::uint64_t batch, const ops::RandomKey& key)
      : batch_(batch), key_(key.key()) {
    for (std::size_t k = 0; k < databases.size(); ++k) {
      sizes_.push_back(databases[k]->size());
      weights_.push_back(settings.weights_by_size()   ? static_cast<double>(sizes_.back())
                         : settings.weights().empty() ? 1
                                                      : settings.weights(static_cast<int>(k)));
      begins_.push_back(settings.rand_skip() == 0 ? 0 : ops::philox(key_, k, 1).v[0] % settings.rand_skip());
    }
    restart();
  }

  struct Place {
    std::size_t database = 0;
    std::uint64_t position = 0;
  };
  /// Of an item of the batch that begins with item `first`. Items after the batch's end belong to the batches
  /// that follow.
  Place find(std::uint64_t first, std::uint64_t item) {
    if (sizes_.size() == 1) return {0, (begins_[0] + item) % sizes_[0]};
    const std::uint64_t offset = item - first, number = first / batch_ + offset / batch_;
    if (number < number_) restart();
    while (number_ < number) {
      ++batches_[database_];
      draw(number_ + 1);
    }
    const std::uint64_t done = begins_[database_] + batches_[database_] * batch_;
    return {database_, (done + offset % batch_) % sizes_[database_]};
  }

 private:
  void restart() {
    batches_.assign(sizes_.size(), 0);
    draw(0);
  }
  void draw(std::uint64_t number) {
    number_ = number;
    database_ = weighted_choice(weights_, ops::uniform01(ops::philox(key_, number, 0).v[0]));
  }

  std::uint64_t batch_, key_;
  std::vector<std::uint64_t> sizes_, begins_;
  std::vector<double> weights_;
  std::uint64_t number_ = 0;            // of the batch
  std::size_t database_ = 0;            // of that batch
  std::vector<std::uint64_t> batches_;  // of each database before that batch
};

class DocumentReader : public RecordReader {
 public:
  DocumentReader(const std::vector<std::shared_ptr<RecordSource>>& databases,
                 const caffe::DocDataParameter& settings, DocumentSchedule schedule)
      : schedule_(std::move(schedule)), decoder_(settings) {
    for (const auto& database : databases) readers_.push_back(database->reader());
  }

  void fetch(std::uint64_t, Record& record) override {
    place_ = schedule_.find(record.batch, record.item);
    current().fetch(place_.position, record);
  }
  void decode(Record& record) override { decoder_(record); }
  std::string_view key() const override { return readers_[place_.database]->key(); }
  /// Of the record that was fetched last.
  std::string describe(std::uint64_t) override { return current().describe(place_.position); }

 private:
  RecordReader& current() { return *readers_[place_.database]; }

  DocumentSchedule schedule_;
  DocumentDecoder decoder_;
  DocumentSchedule::Place place_;
  std::vector<std::unique_ptr<RecordReader>> readers_;
};

class DocumentSource : public RecordSource {
 public:
  DocumentSource(std::vector<std::shared_ptr<RecordSource>> databases,
                 const caffe::DocDataParameter& settings, std::uint64_t batch, const ops::RandomKey& key)
      : databases_(std::move(databases)), settings_(settings), schedule_(databases_, settings, batch, key) {}

  std::uint64_t size() const override {
    std::uint64_t size = 0;
    for (const auto& database : databases_) size += database->size();
    return size;
  }
  std::string name() const override {
    std::vector<std::string> names;
    for (const auto& database : databases_) names.push_back(database->name());
    return join(names, ", ");
  }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<DocumentReader>(databases_, settings_, schedule_);
  }

 private:
  std::vector<std::shared_ptr<RecordSource>> databases_;
  caffe::DocDataParameter settings_;
  DocumentSchedule schedule_;  // at the first batch
};

/// 8-bit pixels of `image`, channel by channel.
void show_pixels(const caffe::DocumentImage& image, Record& record) {
  constexpr int kMostChannels = 4;
  if (image.channels() < 1 || image.channels() > kMostChannels || image.height() < 1 || image.width() < 1)
    bad_input("the record's image is ", image.channels(), " x ", image.height(), " x ", image.width(),
              "; expected 1 to ", kMostChannels, " channels, rows and columns");
  const std::uint64_t expected = static_cast<std::uint64_t>(image.channels()) *
                                 static_cast<std::uint64_t>(image.height()) *
                                 static_cast<std::uint64_t>(image.width());
  if (image.data().size() != expected)
    bad_input("the record's image says ", image.channels(), " x ", image.height(), " x ", image.width(),
              " = ", expected, " values, but holds ", image.data().size());
  record.channels = image.channels();
  record.height = image.height();
  record.width = image.width();
  record.bytes = reinterpret_cast<const std::uint8_t*>(image.data().data());
  record.floats = nullptr;
  record.interleaved = record.encoded = false;
}

}  // namespace

void check_documents(const caffe::DocDataParameter& settings, const std::string& layer) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": doc_data_param.", why...);
  };
  const std::string complaint = complaint_about_weights(settings.weights(), settings.sources_size());
  if (!complaint.empty()) refuse("weights ", complaint);
  for (const std::string& name : settings.label_names()) {
    if (document_field(name) != nullptr) continue;
    std::vector<std::string> known;
    const auto* datum = caffe::DocumentDatum::descriptor();
    for (int k = 0; k < datum->field_count(); ++k)
      if (is_number(*datum->field(k))) known.push_back(datum->field(k)->name());
    refuse("label_names has ", quoted(name), ", which is no number of a DocumentDatum (", join(known, ", "),
           ")");
  }
}

DocumentDecoder::DocumentDecoder(const caffe::DocDataParameter& settings)
    : missing_(static_cast<float>(settings.missing_value())) {
  for (const std::string& name : settings.label_names()) labels_.push_back(document_field(name));
}

void DocumentDecoder::operator()(Record& record) {
  if (record.stored.size() > INT_MAX ||
      !datum_.ParseFromArray(record.stored.data(), static_cast<int>(record.stored.size())))
    bad_input("the record is not a DocumentDatum (its bytes do not parse)");
  if (!datum_.has_image())
    bad_input("the record is no DocumentDatum with an image (records of one Datum are read by Data)");
  const caffe::DocumentImage& image = datum_.image();
  if (image.encoding() == "none") {
    show_pixels(image, record);
  } else {
    constexpr int kColours = 3;
    decode_image(reinterpret_cast<const std::uint8_t*>(image.data().data()), image.data().size(),
                 image.channels() == kColours ? ColorMode::bgr : ColorMode::gray, record.image);
    record.show_image();
  }
  record.labels.clear();
  const auto& reflection = *datum_.GetReflection();
  for (const FieldDescriptor* field : labels_)
    record.labels.push_back(!reflection.HasField(datum_, field) ? missing_
                            : field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT
                                ? reflection.GetFloat(datum_, field)
                                : static_cast<float>(reflection.GetInt32(datum_, field)));
  record.label = record.labels.empty() ? 0 : static_cast<std::int32_t>(record.labels[0]);
}

std::shared_ptr<RecordSource> mix_documents(std::vector<std::shared_ptr<RecordSource>> databases,
                                            const caffe::DocDataParameter& settings, std::uint64_t batch,
                                            const ops::RandomKey& key) {
  return std::make_shared<DocumentSource>(std::move(databases), settings, batch, key);
}

}  // namespace banyan::data
