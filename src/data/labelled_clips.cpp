#include "banyan/data/labelled_clips.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"

namespace banyan::data {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 30;

std::vector<std::string> read_list(const std::string& path, const std::string& root_folder) {
  std::vector<std::string> files;
  for_each_line_of(path, [&](std::uint64_t number, const std::string& line) {
    std::istringstream words(line);
    std::string file, rest;
    if (!(words >> std::quoted(file)) || words >> rest)
      bad_input(path, ":", number, ": expected the path of a clip, in quotes if it has spaces, found ",
                banyan::quoted(line));
    files.push_back(root_folder + file);
  });
  if (files.empty()) bad_input("the list ", banyan::quoted(path), " lists no clips");
  return files;
}

class LabelledClipReader : public RecordReader {
 public:
  LabelledClipReader(std::string list, std::shared_ptr<const std::vector<std::string>> files,
                     const LabelledClipOptions& options)
      : list_(std::move(list)), files_(std::move(files)), options_(options) {}

  void fetch(std::uint64_t position, Record& record) override {
    bytes_ = io::read_file((*files_)[position], kLargest);
    record.stored = bytes_;
  }

  void decode(Record& record) override {
    std::array<std::int32_t, 5> sizes{};
    if (bytes_.size() < sizeof sizes)
      bad_input("expected five sizes, which take ", sizeof sizes, " bytes; found ", bytes_.size(), " bytes");
    std::memcpy(sizes.data(), bytes_.data(), sizeof sizes);
    const auto [items, channels, frames, height, width] = sizes;
    std::int64_t count = 1;
    for (const std::int32_t size : sizes)
      count = size > 0 && count <= std::int64_t{1} << 31 ? count * size : 0;
    const std::size_t each = options_.floats ? sizeof(float) : 1, rest = bytes_.size() - sizeof sizes;
    if (items != 1 || channels <= options_.truth_channels || count == 0 ||
        static_cast<std::uint64_t>(count) != rest / each || rest % each != 0)
      bad_input("expected the sizes 1 x channels x frames x height x width, more than ",
                options_.truth_channels, options_.truth_channels > 1 ? " channels" : " channel",
                ", the last of the truth, and as many ", options_.floats ? "floats" : "bytes", "; found ",
                items, " x ", channels, " x ", frames, " x ", height, " x ", width, " and ", rest, " bytes");
    record.channels = (channels - options_.truth_channels) * frames;
    record.height = height;
    record.width = width;
    record.bytes = nullptr;
    record.floats = nullptr;
    if (options_.floats) {
      record.values.resize(static_cast<std::size_t>(count));
      std::memcpy(record.values.data(), bytes_.data() + sizeof sizes, rest);
      record.floats = record.values.data();
      bytes_ = {};
      record.stored = {};
    } else {
      record.bytes = reinterpret_cast<const std::uint8_t*>(bytes_.data()) + sizeof sizes;
    }
    record.interleaved = record.encoded = false;
    record.numbers = {static_cast<double>(frames)};
  }

  std::string describe(std::uint64_t position) override {
    return cat(list_, ", clip ", position, " (counted from 0; ", banyan::quoted((*files_)[position]), ")");
  }

 private:
  std::string list_;
  std::shared_ptr<const std::vector<std::string>> files_;
  LabelledClipOptions options_;
  std::string bytes_;  ///< of the clip that was fetched
};

class LabelledClipSource : public RecordSource {
 public:
  LabelledClipSource(const std::string& path, const LabelledClipOptions& options)
      : path_(path),
        files_(std::make_shared<const std::vector<std::string>>(read_list(path, options.root_folder))),
        options_(options) {}
  std::uint64_t size() const override { return files_->size(); }
  std::string name() const override { return "list of clips " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<LabelledClipReader>(name(), files_, options_);
  }

 private:
  std::string path_;
  std::shared_ptr<const std::vector<std::string>> files_;
  LabelledClipOptions options_;
};

std::int64_t frames_of(const Record& record) { return static_cast<std::int64_t>(record.numbers[0]); }

}  // namespace

bool reads_labelled_clips(const caffe::LayerParameter& layer) {
  return layer.type() == "VideoSegmentationData" || layer.type() == "VideoWithVoxelTruthData";
}

bool has_truth_settings(const caffe::ImageDataParameter& settings) {
  return settings.has_use_byte_input() || settings.has_num_truth_channels() || settings.has_is_flow() ||
         settings.has_truth_scale() || settings.has_clip_min() || settings.has_clip_max();
}

std::shared_ptr<RecordSource> open_labelled_clips(const std::string& path,
                                                  const LabelledClipOptions& options) {
  return std::make_shared<LabelledClipSource>(path, options);
}

LabelledClipWriter::LabelledClipWriter(const caffe::TransformationParameter& settings, const Options& options,
                                       bool random, const ops::RandomKey& key, const std::string& layer)
    : options_(options), augmenter_(settings, random, key.seed, key.stream, layer) {}

std::vector<Shape> LabelledClipWriter::shapes(const Record& record, std::uint64_t) const {
  const ItemShape shape = augmenter_.output_shape(record);
  const std::int64_t frames = frames_of(record);
  return {{shape.channels / frames, frames, shape.height, shape.width},
          {options_.truth_channels, frames, shape.height, shape.width}};
}

template <class T, class Stored>
void LabelledClipWriter::write_truth(const Record& record, const Stored* truth,
                                     const Augmenter::Window& window, const ItemShape& shape, T* to) const {
  const std::ptrdiff_t frames = frames_of(record);
  for (std::ptrdiff_t plane = 0; plane < options_.truth_channels * frames; ++plane) {
    const float sign = options_.flow && window.mirror && plane < frames ? -1.0f : 1.0f;
    for (std::ptrdiff_t y = 0; y < shape.height; ++y) {
      const Stored* row = truth + (plane * record.height + y + window.top) * record.width + window.left;
      for (std::ptrdiff_t x = 0; x < shape.width; ++x) {
        const float value = sign * static_cast<float>(row[window.mirror ? shape.width - 1 - x : x]);
        const auto& range = options_.range;
        *to++ = static_cast<T>(
            range ? std::clamp((value - range->first) / (range->second - range->first), 0.0f, 1.0f)
                  : value * options_.scale);
      }
    }
  }
}

void LabelledClipWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const ItemShape shape = augmenter_.output_shape(record);
  const Augmenter::Window window = augmenter_.draw(record, shape, item);
  const std::ptrdiff_t pixels = std::ptrdiff_t{record.channels} * record.height * record.width;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    augmenter_.apply(record, item, place.layout, static_cast<T*>(place.outputs[0]));
    T* to = static_cast<T*>(place.outputs[1]);
    if (record.bytes != nullptr)
      write_truth(record, record.bytes + pixels, window, shape, to);
    else
      write_truth(record, record.floats + pixels, window, shape, to);
  });
}

}  // namespace banyan::data
