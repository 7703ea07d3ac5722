// SequenceData (UntrimmedNets): of each video, which is a folder of frames, some of the shots that a list
// names, and snippets of each of them. Outputs: snippets of all shots one after the other in the channels,
// and labels.
#include "banyan/base/text.hpp"
#include "banyan/data/video.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class SequenceDataLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings settings() const override {
    const auto refuse_field = [this](const std::string& field, const std::string& why) {
      refuse("sequence_data_param." + field, why);
    };
    if (videos().video_source().empty()) refuse_field("video_source", "is missing");
    if (videos().shot_source().empty())
      refuse_field("shot_source", "is missing; VideoData reads videos without shots");
    refuse_transform("sequence_data_param", videos());
    check_new_size("sequence_data_param", videos());
    std::uint64_t snippets = 1;
    constexpr std::uint32_t kMost = 10000;
    for (const auto& [field, value] : {std::pair{"num_frames", videos().num_frames()},
                                       {"num_segments", videos().num_segments()},
                                       {"num_shots", videos().num_shots()}}) {
      if (value < 1 || value > kMost) refuse_field(field, cat("must be in [1, ", kMost, "], not ", value));
      snippets *= value;
    }
    if (snippets > kMost)
      refuse("sequence_data_param", cat("asks for ", snippets, " frames of each video; at most ", kMost));
    data::check_frame_pattern(pattern(), flow(),
                              cat("layer ", banyan::quoted(name()), ": sequence_data_param.name_pattern"));
    return settings_of_list("sequence_data_param", videos());
  }

  void check_transform() const override {
    data::check_video_transform(parameter().transform_param(), name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    data::VideoOptions wanted;
    wanted.segments = static_cast<int>(videos().num_segments());
    wanted.length = static_cast<int>(videos().num_frames());
    wanted.shots = static_cast<int>(videos().num_shots());
    wanted.shot_list = videos().shot_source();
    wanted.flow = flow();
    wanted.pattern = pattern();
    wanted.new_height = static_cast<int>(videos().new_height());
    wanted.new_width = static_cast<int>(videos().new_width());
    wanted.random = options().phase == Phase::train;
    wanted.key = key_of("snippets");
    return data::open_video_list(videos().video_source(), wanted);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    return std::make_shared<data::VideoWriter>(parameter().transform_param(), options().phase == Phase::train,
                                               key_of("crop"));
  }

 private:
  const caffe::SequenceDataParameter& videos() const { return parameter().sequence_data_param(); }
  bool flow() const { return videos().modality() == caffe::SequenceDataParameter::FLOW; }
  std::string pattern() const { return data::frame_pattern(videos().name_pattern(), flow()); }
};

const RegisterLayer<SequenceDataLayer> registered_sequence_data(
    "SequenceData",
    {"snippets of shots of videos, which are folders of frames (UntrimmedNets)", "sequence_data_param", {}});

}  // namespace
}  // namespace banyan
