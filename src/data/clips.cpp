#include "banyan/data/clips.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <utility>

#include "banyan/base/number.hpp"
#include "banyan/data/video.hpp"
#include "data/frame_files.hpp"
#include "data/list_words.hpp"
#include "data/video_file.hpp"

namespace banyan::data {

namespace {

constexpr const char* kClipFrames = "%06d.jpg";

/// Sets 1 at each label of "1,4,7"; false if one of them is none.
bool read_label_set(const std::string& word, std::vector<float>& labels) {
  std::istringstream parts(word);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto label = number_in<int>(part);
    if (!label || *label < 0 || *label >= static_cast<int>(labels.size())) return false;
    labels[static_cast<std::size_t>(*label)] = 1;
  }
  return !word.empty() && word.back() != ',';
}

class ClipReader : public RecordReader {
 public:
  ClipReader(std::string name, std::shared_ptr<const std::vector<Clip>> clips, const ClipOptions& options)
      : name_(std::move(name)), clips_(std::move(clips)), options_(options) {}

  void fetch(std::uint64_t position, Record& record) override {
    const Clip& clip = (*clips_)[position];
    if (options_.files) open(options_.root_folder + clip.folder);
    rate_ = rate_of(clip, record.item);
    first_ = first_of(clip, rate_, record.item);
    files_.clear(record);
    record.stored = {};  // a file is read while it is decoded
    for (int f = 0; !options_.files && f < options_.length; ++f)
      files_.add(options_.root_folder + clip.folder + "/" + frame_name(kClipFrames, first_ + f * rate_, 'x'),
                 record);
    record.label = clip.label;
    record.labels = clip.labels;
    record.numbers = {clip.overlap};
  }

  void decode(Record& record) override {
    const auto place = [&](int f) { return FrameChannels{f, options_.length}; };
    if (!options_.files)
      return files_.decode(record, ColorMode::bgr, options_.new_height, options_.new_width, place);
    video_->read(first_, rate_, options_.length, [&](int f, Image& frame) {
      files_.take(record, frame, f, options_.length, ColorMode::bgr, options_.new_height, options_.new_width,
                  place(f));
    });
    record.show_image();
  }

  std::string describe(std::uint64_t position) override {
    return cat(name_, ", clip ", position, " (counted from 0; ", banyan::quoted((*clips_)[position].folder),
               ")");
  }

 private:
  /// Clips of one video often follow each other.
  void open(const std::string& path) {
    if (path == path_) return;
    path_.clear();
    video_ = open_video_file(path);
    path_ = path;
  }
  /// How many frames the clip's video has, where its first one is drawn.
  std::int64_t frames_of(const Clip& clip) const { return options_.files ? frames_in(path_) : clip.first; }

  std::uint32_t draw(std::uint64_t item, std::uint64_t which, int below) const {
    return ops::philox(options_.key.key(), item, which).v[0] % static_cast<std::uint32_t>(below);
  }
  /// Where the number of frames is known, none is drawn with which the clip would not fit.
  int rate_of(const Clip& clip, std::uint64_t item) const {
    if (options_.most_rate == 0 || !options_.random) return options_.rate * clip.rate;
    const std::int64_t most =
        options_.draws_first
            ? std::min<std::int64_t>(options_.most_rate,
                                     frames_of(clip) / (std::int64_t{options_.length} * clip.rate))
            : options_.most_rate;
    return clip.rate *
           (1 + static_cast<int>(draw(item, 0, static_cast<int>(std::max<std::int64_t>(most, 1)))));
  }
  int first_of(const Clip& clip, int rate, std::uint64_t item) const {
    if (!options_.draws_first) return clip.first;
    const int begin = options_.files ? 0 : 1;
    if (!options_.random) return begin;
    const std::int64_t places = frames_of(clip) - std::int64_t{options_.length} * rate + 1;
    if (places < 1)
      bad_input("a clip of ", options_.length, " frames, each ", rate, " after the one before, needs ",
                std::int64_t{options_.length} * rate, "; the video has ", frames_of(clip));
    return begin + static_cast<int>(draw(item, 1, static_cast<int>(std::min<std::int64_t>(places, 1 << 30))));
  }

  std::string name_;
  std::shared_ptr<const std::vector<Clip>> clips_;
  ClipOptions options_;
  FrameFiles files_;
  std::unique_ptr<VideoFile> video_;  ///< that of path_
  std::string path_;
  int first_ = 0, rate_ = 1;  ///< of the clip that was fetched
};

class ClipSource : public RecordSource {
 public:
  ClipSource(const std::string& path, const ClipOptions& options)
      : path_(path),
        clips_(std::make_shared<const std::vector<Clip>>(read_clip_list(path, options))),
        options_(options) {}
  std::uint64_t size() const override { return clips_->size(); }
  std::string name() const override { return "clip list " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<ClipReader>(name(), clips_, options_);
  }

 private:
  std::string path_;
  std::shared_ptr<const std::vector<Clip>> clips_;
  ClipOptions options_;
};

/// The means of the colours, for each frame.
caffe::TransformationParameter for_frames(caffe::TransformationParameter settings, int length) {
  if (settings.mean_value_size() != 3) return settings;
  const std::vector<float> means(settings.mean_value().begin(), settings.mean_value().end());
  settings.clear_mean_value();
  for (const float mean : means)
    for (int f = 0; f < length; ++f) settings.add_mean_value(mean);
  return settings;
}

}  // namespace

bool lists_clips(const caffe::LayerParameter& layer) {
  const caffe::VideoDataParameter& s = layer.video_data_param();
  return layer.type() == "VideoData" &&
         (layer.has_image_data_param() || s.has_root_folder() || s.has_use_image() || s.has_sampling_rate() ||
          s.has_max_sampling_rate() || s.has_use_temporal_jitter() || s.has_use_sampling_rate_jitter() ||
          s.has_use_multiple_label() || s.has_num_of_labels());
}

std::vector<Clip> read_clip_list(const std::string& path, const ClipOptions& options) {
  std::vector<Clip> clips;
  for_each_line_of(path, [&](std::uint64_t number, const std::string& line) {
    const auto refuse = [&](const auto&... why) {
      bad_input(path, ":", number, ": ", why..., ", found ", banyan::quoted(line));
    };
    std::istringstream words(line);
    Clip clip;
    std::vector<std::string> fields;
    words >> std::quoted(clip.folder);
    for (std::string word; words >> word;) fields.push_back(word);
    const auto field = [&](std::size_t i, int otherwise, int least) {
      if (i >= fields.size()) return std::optional(otherwise);
      const auto value = number_in<int>(fields[i]);
      return value && *value >= least ? value : std::nullopt;
    };
    const bool counts = options.draws_first && !options.files;
    const auto first = field(0, 0, counts ? 1 : 0), rate = field(2, 1, 1);
    clip.labels.assign(static_cast<std::size_t>(options.labels), 0);
    const bool several = options.labels > 0;
    const auto label = several ? std::optional(0) : field(1, 0, std::numeric_limits<int>::min());
    const auto overlap = number_in<float>(fields.size() > 3 ? fields[3] : "0");
    if (fields.size() < 2 || fields.size() > 4 || !first || !label || !rate || !overlap ||
        !std::isfinite(*overlap))
      refuse("expected \"", options.files ? "file " : "folder ", counts ? "frames" : "first_frame",
             several ? " labels" : " label",
             options.overlaps ? " sampling_rate overlap\"" : "\", and perhaps a sampling_rate");
    if (options.overlaps && fields.size() < 4)
      refuse("expected \"", options.files ? "file" : "folder",
             " first_frame label sampling_rate overlap\", since the layer has three outputs");
    if (several && !read_label_set(fields[1], clip.labels))
      refuse("expected labels from 0 to ", options.labels - 1, ", as in \"1,4,7\"");
    clip.first = *first;
    clip.rate = *rate;
    clip.label = *label;
    clip.overlap = *overlap;
    // In tests, and where none is drawn, the rate is that of the options.
    const bool jitters = options.most_rate > 0 && options.random;
    const std::int64_t step = std::int64_t{clip.rate} * (jitters ? 1 : options.rate);
    if (counts && clip.first / options.length < step)
      refuse("a clip of ", options.length, " frames, each ", step, " after the one before, needs ",
             options.length * step);
    const std::int64_t longest = std::int64_t{clip.rate} * std::max(options.rate, options.most_rate);
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    if (longest > kMost / options.length || clip.first > kMost - longest * options.length)
      refuse("expected smaller numbers");
    clips.push_back(std::move(clip));
  });
  if (clips.empty()) bad_input("the list ", banyan::quoted(path), " lists no clips");
  return clips;
}

std::shared_ptr<RecordSource> open_clip_list(const std::string& path, const ClipOptions& options) {
  return std::make_shared<ClipSource>(path, options);
}

void check_clip_transform(const caffe::TransformationParameter& settings, const std::string& layer) {
  check_transform(settings, layer);
  const int means = settings.mean_value_size();
  if (means != 0 && means != 1 && means != 3)
    bad_input("layer ", banyan::quoted(layer), ": transform_param has ", means,
              " values of mean_value; expected 1, or 3 for the colours");
}

ClipWriter::ClipWriter(const caffe::TransformationParameter& settings, int length, bool overlaps, bool random,
                       const ops::RandomKey& key, const std::string& layer)
    : length_(length),
      overlaps_(overlaps),
      augmenter_(for_frames(settings, length), random, key.seed, key.stream, layer) {}

std::vector<Shape> ClipWriter::shapes(const Record& record, std::uint64_t item) const {
  std::vector<Shape> shapes = augmenter_.shapes(record, item);
  shapes[0] = {shapes[0][0] / length_, length_, shapes[0][1], shapes[0][2]};
  if (overlaps_) shapes.emplace_back();
  return shapes;
}

void ClipWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  augmenter_.write(record, item, place);
  if (!overlaps_) return;
  dispatch_float(place.dtype, "a data layer",
                 [&]<class T>() { *static_cast<T*>(place.outputs[2]) = static_cast<T>(record.numbers[0]); });
}

}  // namespace banyan::data
