// VideoData: snippets of videos that are folders of frames, named in a list (yjxiong's Caffe), or clips of
// such videos or of video files, whose list names where each begins (C3D); or the frames of one video file,
// as images that transform_param resizes and changes as in AnnotatedData (SSD, NVIDIA).
#include <algorithm>

#include "banyan/data/annotated.hpp"
#include "banyan/data/clips.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "banyan/data/video.hpp"
#include "data/video_file.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class VideoDataLayer : public SourceLayer {
 public:
  VideoDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 1, data::lists_clips(parameter) ? 3 : 2},
                    data::lists_clips(parameter) ? LayoutRule::contiguous : LayoutRule::channels_last) {}

 protected:
  Settings settings() const override {
    const caffe::VideoDataParameter& from = parameter().video_data_param();
    if (shows_file()) return file_settings();
    if (data::lists_clips(parameter())) return clip_settings();
    const auto refuse_field = [this](const char* field, const std::string& why) {
      refuse(std::string("video_data_param.") + field, why);
    };
    if (from.source().empty()) refuse_field("source", "is missing");
    if (from.modality() == caffe::VideoDataParameter::VIDEO)
      refuse_field("modality", "must be RGB or FLOW, not VIDEO");
    refuse_transform("video_data_param", from);
    if (from.length_first() && from.grayscale())
      refuse_field("grayscale", "does not go with length_first, whose frames are in colour");
    if (from.step() != 1 && (!from.length_first() || flow()))
      refuse_field("step", "needs length_first and modality: RGB");
    check_new_size("video_data_param", from);
    for (const auto& [field, value] :
         {std::pair{"new_length", from.new_length()}, {"num_segments", from.num_segments()}})
      if (value < 1 || value > 10000) refuse_field(field, cat("must be in [1, 10000], not ", value));
    if (from.step() < 1 || from.new_length() % from.step() != 0)
      refuse_field("step",
                   cat("must divide new_length, which is ", from.new_length(), "; found ", from.step()));
    data::check_frame_pattern(pattern(), flow(),
                              cat("layer ", banyan::quoted(name()), ": video_data_param.name_pattern"));
    return settings_of_list("video_data_param", from);
  }

  void check_transform() const override {
    if (shows_file())
      data::check_annotated(parameter().transform_param(), {}, name());
    else if (data::lists_clips(parameter()))
      data::check_clip_transform(parameter().transform_param(), name());
    else
      data::check_video_transform(parameter().transform_param(), name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::VideoDataParameter& from = parameter().video_data_param();
    if (data::reads_camera(parameter()))
      refuse("video_data_param.video_type", "must be VIDEO: cameras are not supported");
    if (shows_file()) return data::open_video_frames(from.video_file(), from.skip_frames());
    if (data::lists_clips(parameter())) return open_clips();
    data::VideoOptions wanted;
    wanted.segments = static_cast<int>(from.num_segments());
    wanted.length = static_cast<int>(from.new_length());
    wanted.length_first = from.length_first();
    wanted.step = static_cast<int>(from.step());
    wanted.draws_step = from.rand_step();
    wanted.flow = flow();
    wanted.gray = from.grayscale();
    wanted.pattern = pattern();
    wanted.new_height = static_cast<int>(from.new_height());
    wanted.new_width = static_cast<int>(from.new_width());
    wanted.random = options().phase == Phase::train;
    wanted.key = key_of("snippets");
    return data::open_video_list(from.source(), wanted);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    const bool training = options().phase == Phase::train;
    if (shows_file())
      return std::make_shared<data::AnnotatedWriter>(
          parameter().transform_param(), caffe::AnnotatedDataParameter(),
          data::AnnotatedWriter::Options{false, training, options().seed, name()});
    if (data::lists_clips(parameter()))
      return std::make_shared<data::ClipWriter>(parameter().transform_param(), clip_options().length,
                                                overlaps(), training, key_of("crop"), name());
    return std::make_shared<data::VideoWriter>(parameter().transform_param(), training, key_of("crop"),
                                               run());
  }

 private:
  bool shows_file() const { return data::shows_file(parameter()); }
  Settings file_settings() const {
    const caffe::VideoDataParameter& from = parameter().video_data_param();
    const bool camera = data::reads_camera(parameter());  // refused when it is to be opened
    if (!camera && from.video_file().empty()) refuse("video_data_param.video_file", "is missing");
    caffe::VideoDataParameter others = from;
    others.clear_video_type();
    others.clear_device_id();
    others.clear_video_file();
    others.clear_skip_frames();
    if (others.ByteSizeLong() > 0)
      refuse("video_data_param",
             cat("has settings of lists beside ",
                 camera ? "those of a camera, and cameras are not supported: " : "a video_file: ",
                 others.ShortDebugString(), "; the batch size is that of data_param"));
    if (parameter().top_size() > 1)
      refuse("video_data_param.video_file", "gives images only, for one top; found further ones");
    if (!camera) data::require_ffmpeg(cat("layer ", banyan::quoted(name()), ": video_data_param.video_file"));
    Settings settings = settings_of(parameter().data_param());
    settings.field = "data_param";
    return settings;
  }

  /// C3D v1.0 has its settings in image_data_param, v1.1 in video_data_param.
  bool first_version() const { return parameter().has_image_data_param(); }
  bool overlaps() const { return parameter().top_size() > 2; }

  /// What both messages have.
  template <class Message>
  Settings checked_clips(const char* message, const Message& from) const {
    const auto refuse_field = [&](const char* field, const std::string& why) {
      refuse(cat(message, ".", field), why);
    };
    if (from.source().empty()) refuse_field("source", "is missing");
    if (!from.has_use_image())
      refuse_field("use_image", "must be given: true for folders of frames, false for video files");
    if (!from.use_image())
      data::require_ffmpeg(cat("layer ", banyan::quoted(name()), ": ", message, ".use_image: false"));
    refuse_transform(message, from);
    check_new_size(message, from);
    for (const auto& [field, value] :
         {std::pair{"new_length", from.new_length()}, {"sampling_rate", from.sampling_rate()}})
      if (value < 1 || value > 10000) refuse_field(field, cat("must be in [1, 10000], not ", value));
    Settings settings;
    settings.field = message;
    settings.batch_size = from.has_batch_size() ? from.batch_size() : 1;
    settings.shuffle = from.shuffle();
    settings.random_skip = from.rand_skip();
    return settings;
  }

  Settings first_settings() const {
    const caffe::ImageDataParameter& from = parameter().image_data_param();
    Settings settings = checked_clips("image_data_param", from);
    if (!from.is_color()) refuse("image_data_param.is_color", "must be true: frames are in colour");
    if (from.has_mean_value()) refuse("image_data_param.mean_value", "belongs into transform_param");
    if (data::has_truth_settings(from))
      refuse("image_data_param", "has settings of C3D's VideoWithVoxelTruthData");
    for (const auto& [field, set] : {std::pair{"short_side", from.has_short_side()},
                                     {"min_height", from.has_min_height()},
                                     {"min_width", from.has_min_width()},
                                     {"label_dim", from.has_label_dim()},
                                     {"label_size", from.has_label_size()},
                                     {"label_type", from.has_label_type()},
                                     {"has_label", from.has_has_label()},
                                     {"pair_size", from.has_pair_size()}})
      if (set) refuse(cat("image_data_param.", field), "does not go with lists of C3D");
    settings.batch_size_is_total = from.batch_size_is_total();
    settings.epoch_end = from.epoch_end() == caffe::PARTIAL ? data::EpochEnd::partial : data::EpochEnd::wrap;
    if (from.has_threads())
      settings.threads = static_cast<int>(std::clamp<std::uint32_t>(from.threads(), 1, 256));
    return settings;
  }

  Settings clip_settings() const {
    if (first_version()) {
      if (parameter().has_video_data_param())
        refuse("image_data_param",
               "does not go with video_data_param: both are settings of VideoData in C3D");
      return first_settings();
    }
    const caffe::VideoDataParameter& from = parameter().video_data_param();
    const Settings settings = checked_clips("video_data_param", from);
    if (from.has_num_segments() || from.has_modality() || from.has_name_pattern() || from.has_grayscale() ||
        from.has_length_first() || from.has_step() || from.has_rand_step())
      refuse("video_data_param", "has settings of TSN's lists of videos and of C3D's lists of clips");
    if (from.max_sampling_rate() < 1 || from.max_sampling_rate() > 10000)
      refuse("video_data_param.max_sampling_rate",
             cat("must be in [1, 10000], not ", from.max_sampling_rate()));
    constexpr std::uint32_t kMost = 1 << 16;
    if (from.use_multiple_label() && (from.num_of_labels() < 1 || from.num_of_labels() > kMost))
      refuse("video_data_param.num_of_labels",
             cat("must be from 1 to ", kMost, " with use_multiple_label, not ", from.num_of_labels()));
    return settings;
  }

  data::ClipOptions clip_options() const {
    data::ClipOptions wanted;
    const auto take = [&](const auto& from) {
      wanted.root_folder = from.root_folder();
      wanted.length = static_cast<int>(from.new_length());
      wanted.rate = static_cast<int>(from.sampling_rate());
      wanted.files = !from.use_image();
      wanted.draws_first = from.use_temporal_jitter();
      wanted.new_height = static_cast<int>(from.new_height());
      wanted.new_width = static_cast<int>(from.new_width());
    };
    const caffe::VideoDataParameter& second = parameter().video_data_param();
    if (first_version())
      take(parameter().image_data_param());
    else
      take(second);
    if (second.use_sampling_rate_jitter()) wanted.most_rate = static_cast<int>(second.max_sampling_rate());
    if (second.use_multiple_label()) wanted.labels = static_cast<int>(second.num_of_labels());
    wanted.overlaps = overlaps();
    wanted.random = options().phase == Phase::train;
    wanted.key = key_of("snippets");
    return wanted;
  }

  std::shared_ptr<data::RecordSource> open_clips() const {
    const std::string& source =
        first_version() ? parameter().image_data_param().source() : parameter().video_data_param().source();
    return data::open_clip_list(source, clip_options());
  }

  bool flow() const { return parameter().video_data_param().modality() == caffe::VideoDataParameter::FLOW; }
  /// Frames that follow each other in the channels.
  int run() const {
    const auto& from = parameter().video_data_param();
    return from.length_first() ? static_cast<int>(from.new_length() / from.step()) : 1;
  }
  std::string pattern() const {
    return data::frame_pattern(parameter().video_data_param().name_pattern(), flow());
  }
};

const RegisterLayer<VideoDataLayer> registered_video_data(
    "VideoData",
    {.about = "snippets (TSN), clips (C3D) or frames (SSD) of videos, which are folders of frames or files",
     .message = "video_data_param",
     .examples = {},
     .further = {"image_data_param", "data_param"}});

}  // namespace

}  // namespace banyan
