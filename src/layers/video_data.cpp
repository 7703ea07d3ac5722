// VideoData (yjxiong's Caffe): snippets of videos that are folders of frames, named in a list.
#include <algorithm>

#include "banyan/data/video.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class VideoDataLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings settings() const override {
    const caffe::VideoDataParameter& from = parameter().video_data_param();
    const auto refuse_field = [this](const char* field, const std::string& why) {
      refuse(std::string("video_data_param.") + field, why);
    };
    if (parameter().has_image_data_param()) refuse("image_data_param", cat("is that of ", kVideoDataOfC3d));
    if (from.has_root_folder() || from.has_use_image() || from.has_show_data() || from.has_sampling_rate() ||
        from.has_max_sampling_rate() || from.has_use_temporal_jitter() ||
        from.has_use_sampling_rate_jitter() || from.has_use_multiple_label() || from.has_num_of_labels())
      refuse("video_data_param", cat("has settings of ", kVideoDataOfC3d));
    if (from.has_video_type() || from.has_device_id() || from.has_video_file() || from.has_skip_frames())
      refuse("video_data_param",
             "asks for a camera or a video file, which are not supported: extract frames");
    if (from.source().empty()) refuse_field("source", "is missing");
    if (from.modality() == caffe::VideoDataParameter::VIDEO)
      refuse_field("modality", "must be RGB or FLOW, not VIDEO");
    for (const auto& [field, set] : {std::pair{"scale", from.has_scale()},
                                     {"mean_file", from.has_mean_file()},
                                     {"crop_size", from.has_crop_size()},
                                     {"mirror", from.has_mirror()}})
      if (set) refuse_field(field, "belongs into transform_param");
    if (from.length_first() && from.grayscale())
      refuse_field("grayscale", "does not go with length_first, whose frames are in colour");
    if (from.step() != 1 && (!from.length_first() || flow()))
      refuse_field("step", "needs length_first and modality: RGB");
    constexpr std::uint32_t kMost = 1 << 15;
    if ((from.new_height() > 0) != (from.new_width() > 0) ||
        std::max(from.new_height(), from.new_width()) > kMost)
      refuse("video_data_param",
             cat("must set both of new_height and new_width, or neither, to at most ", kMost));
    for (const auto& [field, value] :
         {std::pair{"new_length", from.new_length()}, {"num_segments", from.num_segments()}})
      if (value < 1 || value > 10000) refuse_field(field, cat("must be in [1, 10000], not ", value));
    if (from.step() < 1 || from.new_length() % from.step() != 0)
      refuse_field("step",
                   cat("must divide new_length, which is ", from.new_length(), "; found ", from.step()));
    data::check_frame_pattern(pattern(), flow(),
                              cat("layer ", banyan::quoted(name()), ": video_data_param.name_pattern"));
    Settings settings;
    settings.field = "video_data_param";
    settings.batch_size = from.batch_size();
    settings.shuffle = from.shuffle();
    settings.random_skip = from.rand_skip();
    return settings;
  }

  void check_transform() const override {
    data::check_video_transform(parameter().transform_param(), name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::VideoDataParameter& from = parameter().video_data_param();
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
    return std::make_shared<data::VideoWriter>(parameter().transform_param(), options().phase == Phase::train,
                                               key_of("crop"), run());
  }

 private:
  bool flow() const { return parameter().video_data_param().modality() == caffe::VideoDataParameter::FLOW; }
  /// Frames that follow each other in the channels.
  int run() const {
    const auto& from = parameter().video_data_param();
    return from.length_first() ? static_cast<int>(from.new_length() / from.step()) : 1;
  }
  std::string pattern() const {
    const std::string& given = parameter().video_data_param().name_pattern();
    return !given.empty() ? given : flow() ? "flow_%c_%04d.jpg" : "image_%04d.jpg";
  }
};

const RegisterLayer<VideoDataLayer> registered_video_data("VideoData",
                                                          {"snippets of videos, folders of frames named in a "
                                                           "list (TSN)",
                                                           "video_data_param",
                                                           {}});

}  // namespace

}  // namespace banyan
