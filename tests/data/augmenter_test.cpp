#include "banyan/data/augmenter.hpp"

#include <set>

#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<float>;

caffe::TransformationParameter settings_of(const std::string& text) {
  caffe::TransformationParameter settings;
  io::parse_text(text, "test", settings);
  return settings;
}

Augmenter augmenter(const std::string& text, bool random_crop = false, std::uint64_t seed = 1) {
  return Augmenter(settings_of(text), random_crop, seed, 5, "data");
}

/// 2 channels, 3 x 4, planar: channel 0 holds 0..11, channel 1 holds 100..111.
struct Sample {
  Sample() {
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < 12; ++i) pixels.push_back(static_cast<std::uint8_t>(100 * c + i));
    record.channels = 2;
    record.height = 3;
    record.width = 4;
    record.bytes = pixels.data();
  }
  std::vector<std::uint8_t> pixels;
  Record record;
};

template <class T = float>
std::vector<T> apply(const Augmenter& augmenter, const Record& record, std::uint64_t item = 0,
                     Layout layout = Layout::contiguous) {
  std::vector<T> output(augmenter.output_shape(record).count());
  augmenter.apply(record, item, layout, output.data());
  return output;
}

TEST(Augmenter, WithoutSettingsCopies) {
  const Sample sample;
  const Values output = apply(augmenter(""), sample.record);
  EXPECT_EQ(output, Values(sample.pixels.begin(), sample.pixels.end()));
}

TEST(Augmenter, MeanIsSubtractedBeforeTheScale) {
  const Sample sample;
  const Values output = apply(augmenter("mean_value: 1 mean_value: 100 scale: 0.5"), sample.record);
  EXPECT_EQ(output[0], -0.5f);
  EXPECT_EQ(output[11], 5.0f);
  EXPECT_EQ(output[12], 0.0f);
  EXPECT_EQ(apply(augmenter("mean_value: 2"), sample.record)[23], 109.0f);  // one for all channels
  EXPECT_EQ(apply<double>(augmenter("mean_value: 2"), sample.record)[23], 109.0);
}

TEST(Augmenter, CentreCropInTests) {
  const Sample sample;
  // Offsets floor((3 - 2) / 2) = 0 and (4 - 2) / 2 = 1.
  EXPECT_THAT(apply(augmenter("crop_size: 2"), sample.record), ElementsAre(1, 2, 5, 6, 101, 102, 105, 106));
}

TEST(Augmenter, CropsNeedNotBeSquare) {
  const Sample sample;
  for (const char* names : {"crop_h: 1 crop_w: 3", "crop_height: 1 crop_width: 3"})
    EXPECT_THAT(apply(augmenter(names), sample.record), ElementsAre(4, 5, 6, 104, 105, 106)) << names;
  // As in NVIDIA's, before crop_size.
  EXPECT_THAT(apply(augmenter("crop_size: 1 crop_w: 4"), sample.record),
              ElementsAre(4, 5, 6, 7, 104, 105, 106, 107));
  EXPECT_THAT(apply(augmenter("crop_size: 2 crop_h: 1 crop_w: 1"), sample.record), ElementsAre(5, 105));
  std::set<float> places;
  for (std::uint64_t item = 0; item < 100; ++item)
    places.insert(apply(augmenter("crop_h: 2 crop_w: 3", true), sample.record, item)[0]);
  EXPECT_THAT(places, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(bad_input_of([&] { augmenter("crop_h: 2 crop_w: 5").output_shape(sample.record); }),
              HasSubstr("the crop, 2 x 5, is larger than the image (3 x 4)"));
  EXPECT_THAT(bad_input_of([&] { augmenter("crop_h: 2"); }), HasSubstr("needs both of crop_h and crop_w"));
  EXPECT_THAT(bad_input_of([&] { augmenter("crop_h: 99999 crop_w: 1"); }), HasSubstr("at most"));
}

TEST(Augmenter, ChannelsLastAndInterleavedAreTheSamePixels) {
  const Sample sample;
  Record interleaved = sample.record;
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 12; ++i)
    for (int c = 0; c < 2; ++c) pixels.push_back(sample.pixels[12 * c + i]);
  interleaved.bytes = pixels.data();
  interleaved.interleaved = true;
  const Augmenter augment = augmenter("crop_size: 2 mirror: true mean_value: 3 pad: 1", true);
  for (std::uint64_t item = 0; item < 20; ++item) {
    const Values planar = apply(augment, sample.record, item);
    EXPECT_EQ(apply(augment, interleaved, item), planar);
    const Values last = apply(augment, interleaved, item, Layout::channels_last);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t c = 0; c < 2; ++c) EXPECT_EQ(last[2 * i + c], planar[4 * c + i]);
  }
}

TEST(Augmenter, PaddingIsZeroPixels) {
  const Sample sample;
  const Values output = apply(augmenter("pad: 1 mean_value: 4 scale: 2"), sample.record);
  ASSERT_EQ(output.size(), 2u * 5 * 6);
  EXPECT_EQ(output[0], -8.0f);
  EXPECT_EQ(output[7], -8.0f);  // (0 - 4) * 2 at row 1, column 1: pixel 0
  EXPECT_EQ(output[8], -6.0f);
  // In tests pad and crop of the image's size cancel.
  Record square = sample.record;
  square.width = 3;
  EXPECT_EQ(apply(augmenter("pad: 2 crop_size: 3"), square), apply(augmenter(""), square));
}

TEST(Augmenter, RandomCropsReachEveryPlaceAndMirrorsHalf) {
  const Sample sample;
  const Augmenter augment = augmenter("crop_size: 2 mirror: true", true);
  std::set<Values> seen;
  int mirrored = 0;
  for (std::uint64_t item = 0; item < 400; ++item) {
    const Values output = apply(augment, sample.record, item);
    seen.insert(output);
    mirrored += output[0] > output[1];
  }
  EXPECT_EQ(seen.size(), 2u * 3 * 2);  // 2 x 3 offsets, mirrored or not
  EXPECT_NEAR(mirrored, 200, 60);      // six deviations of a fair coin
}

TEST(Augmenter, MirrorWorksInTestsToo) {
  const Sample sample;
  const Augmenter augment = augmenter("mirror: true");
  std::set<float> corners;
  for (std::uint64_t item = 0; item < 40; ++item) corners.insert(apply(augment, sample.record, item)[0]);
  EXPECT_THAT(corners, ElementsAre(0, 3));
}

TEST(Augmenter, DrawsDependOnSeedAndItemAlone) {
  const Sample sample;
  const Augmenter one = augmenter("crop_size: 2 mirror: true", true, 1),
                  same = augmenter("crop_size: 2 mirror: true", true, 1),
                  other = augmenter("crop_size: 2 mirror: true", true, 2),
                  own = augmenter("crop_size: 2 mirror: true random_seed: 1", true, 2);
  int differs = 0;
  for (std::uint64_t item = 100; item-- > 0;) {  // in a different order
    EXPECT_EQ(apply(same, sample.record, item), apply(one, sample.record, item));
    EXPECT_EQ(apply(own, sample.record, item), apply(one, sample.record, item));
    differs += apply(other, sample.record, item) != apply(one, sample.record, item);
  }
  EXPECT_GT(differs, 50);
}

/// Pixel (c, y, x) of a record, wherever it is in memory.
float pixel_of(const Record& record, int c, int y, int x) {
  if (y < 0 || y >= record.height || x < 0 || x >= record.width) return 0;
  return record.bytes[record.interleaved ? (y * record.width + x) * record.channels + c
                                         : (c * record.height + y) * record.width + x];
}

/// Images of 1 and 3 channels have special loops for each pixel order. The test searches for each item's
/// crop, so it does not depend on the draws.
TEST(Augmenter, EveryOrderOfPixelsGivesTheSameValues) {
  constexpr int kHeight = 19, kWidth = 37, kCrop = 18,
                kPad = 2;  // widths that are not a multiple of a vector's
  std::set<bool> mirrors;
  for (const int channels : {1, 2, 3, 4})
    for (const bool interleaved : {false, true})
      for (const Layout layout : {Layout::contiguous, Layout::channels_last})
        for (std::uint64_t item = 0; item < 6; ++item) {
          std::vector<std::uint8_t> pixels;
          for (int i = 0; i < channels * kHeight * kWidth; ++i)
            pixels.push_back(static_cast<std::uint8_t>(i * 37 + i / 11));
          Record record;
          record.channels = channels;
          record.height = kHeight;
          record.width = kWidth;
          record.bytes = pixels.data();
          record.interleaved = interleaved;
          const Augmenter both(settings_of("mirror: true pad: 2 crop_size: 18 mean_value: 3.1 scale: 0.3"),
                               true, 1, 5, "data");
          const Values values = apply(both, record, item, layout);
          const auto is_at = [&](int top, int left, bool mirror) {
            for (int c = 0; c < channels; ++c)
              for (int y = 0; y < kCrop; ++y)
                for (int x = 0; x < kCrop; ++x) {
                  const int out_x = mirror ? kCrop - 1 - x : x;
                  const int at = layout == Layout::channels_last ? (y * kCrop + out_x) * channels + c
                                                                 : (c * kCrop + y) * kCrop + out_x;
                  const float expected = (pixel_of(record, c, y + top, x + left) - 3.1f) * 0.3f;
                  if (values[at] != expected) return false;
                }
            return true;
          };
          int places = 0;
          for (int top = -kPad; top <= kHeight + kPad - kCrop; ++top)
            for (int left = -kPad; left <= kWidth + kPad - kCrop; ++left)
              for (const bool mirror : {false, true})
                if (is_at(top, left, mirror)) {
                  ++places;
                  mirrors.insert(mirror);
                }
          EXPECT_EQ(places, 1) << channels << " channels, interleaved " << interleaved << ", item " << item;
        }
  EXPECT_EQ(mirrors.size(), 2u);
}

class MeanFile : public FolderTest {
 protected:
  std::string make(int channels, int height, int width, int values) {
    caffe::BlobProto blob;
    blob.set_num(1);
    blob.set_channels(channels);
    blob.set_height(height);
    blob.set_width(width);
    for (int i = 0; i < values; ++i) blob.add_data(static_cast<float>(i));
    write_file(path("mean"), blob.SerializeAsString());
    return "mean_file: \"" + path("mean") + "\" ";
  }
};

TEST_F(MeanFile, IsReadAtTheOffsetOfTheCrop) {
  const Sample sample;
  const std::string mean = make(2, 3, 4, 24);
  // Pixel minus mean is 0 in channel 0 and 88 in channel 1, wherever the crop is and however it is mirrored.
  const Augmenter augment = augmenter(mean + "crop_size: 2 mirror: true", true);
  for (std::uint64_t item = 0; item < 30; ++item)
    EXPECT_THAT(apply(augment, sample.record, item), ElementsAre(0, 0, 0, 0, 88, 88, 88, 88));
  // Padding: zero minus the nearest mean.
  EXPECT_EQ(apply(augmenter(mean + "pad: 1"), sample.record)[5], -3.0f);
}

/// Double precision has no special loops; small integers are exact in both.
TEST_F(MeanFile, IsSubtractedInEveryOrderOfPixels) {
  const std::string mean = make(3, 5, 21, 3 * 5 * 21);
  const Augmenter augment = augmenter(mean + "crop_size: 5 pad: 1 mirror: true scale: 2", true);
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 3 * 5 * 21; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 5));
  Record record;
  record.channels = 3;
  record.height = 5;
  record.width = 21;
  record.bytes = pixels.data();
  for (const bool interleaved : {false, true})
    for (const Layout layout : {Layout::contiguous, Layout::channels_last})
      for (std::uint64_t item = 0; item < 8; ++item) {
        record.interleaved = interleaved;
        const auto general = apply<double>(augment, record, item, layout);
        EXPECT_EQ(apply(augment, record, item, layout), Values(general.begin(), general.end()));
      }
}

TEST_F(MeanFile, WrongOnesAreErrors) {
  const Sample sample;
  const std::string other = make(2, 3, 3, 18);
  EXPECT_THAT(bad_input_of([&] { augmenter(other).output_shape(sample.record); }),
              HasSubstr("the image is 2 x 3 x 4, but mean_file"));
  const std::string shorter = make(2, 3, 4, 23);
  EXPECT_THAT(bad_input_of([&] { augmenter(shorter); }), HasSubstr("= 24 values, but holds 23"));
  write_file(path("mean"), std::string("\x0a\xff junk"));
  EXPECT_THAT(bad_input_of([&] { augmenter(shorter); }), HasSubstr("not a binary BlobProto"));
  EXPECT_THAT(bad_input_of([&] { augmenter("mean_file: \"/none\""); }),
              AllOf(HasSubstr("layer \""), HasSubstr("\": mean_file: cannot open \"/none\"")));
}

TEST(Augmenter, ContradictionsAreErrors) {
  const Sample sample;
  EXPECT_THAT(bad_input_of([&] { augmenter("crop_size: 4").output_shape(sample.record); }),
              HasSubstr("crop_size 4 is larger than the image (3 x 4)"));
  EXPECT_THAT(bad_input_of([&] {
                augmenter("mean_value: 1 mean_value: 2 mean_value: 3").output_shape(sample.record);
              }),
              HasSubstr("2 channels"));
  EXPECT_THAT(bad_input_of([&] { augmenter("mean_file: \"x\" mean_value: 2"); }), HasSubstr("both"));
  EXPECT_THAT(bad_input_of([&] { augmenter("force_color: true force_gray: true"); }), HasSubstr("both"));
  EXPECT_THAT(bad_input_of([&] { augmenter("multi_scale: true"); }),
              HasSubstr("transform_param.multi_scale is not supported"));
}

TEST(Augmenter, TakesWhatIsWithoutEffect) {
  augmenter(
      "forward_packing: NHWC use_gpu_transform: true vertical_stretch_lower: 1 crop_h: 0 num_labels: 0 "
      "bgr2rgb: false multi_scale: false noise_param { } expand_param { prob: 0 }");
  augmenter("noise_param { prob: 0 hist_eq: false jpeg: -1 saltpepper_param { value: 1 } }");
  for (const char* settings :
       {"vertical_stretch_lower: 0.9", "num_labels: 2", "bgr2rgb: true", "eigs: 0",
        "noise_param { hist_eq: true }", "expand_param { prob: 0.1 }", "interpolation_algo_up: INTER_CUBIC"})
    EXPECT_THAT(bad_input_of([&] { augmenter(settings); }), HasSubstr("is not supported")) << settings;
}

TEST(Augmenter, SaysWhatTakesThePlaceOfOtherLayersSettings) {
  const std::pair<const char*, const char*> cases[] = {
      {"eigs: 0", "eigs is not supported: only Data and ImageData"},
      {"eigs_channels: 1", "eigs_channels is not supported: only Data and ImageData"},
      {"rand_crop_test: true", "rand_crop_test is not supported: only Data and ImageData"},
      {"short_edge: 2", "short_edge is not supported: only Data and ImageData"},
      {"emit_constraint { }", "emit_constraint is not supported: it chooses among the boxes"},
      {"expand_param { prob: 0.5 }", "expand_param is not supported: only AnnotatedData"},
      {"noise_param { erode: true }", "noise_param is not supported: only Data, ImageData and AnnotatedData"},
      {"resize_param { }", "resize_param is not supported: only Data, ImageData and AnnotatedData"},
      {"scale_factors: 2", "scale_factors is not supported: only ImageSegData"},
      {"stride: 2", "stride is not supported: only SegData"},
      {"upper_size: 2", "upper_size is not supported: only SegData"},
      {"upper_height: 2", "upper_height is not supported: only SegData"},
      {"upper_width: 2", "upper_width is not supported: only SegData"}};
  for (const auto& [settings, part] : cases)
    EXPECT_THAT(bad_input_of([&] { augmenter(settings); }), HasSubstr(part));
}

}  // namespace
}  // namespace banyan::data
