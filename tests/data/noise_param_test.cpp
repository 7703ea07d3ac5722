// noise_param in Data and ImageData: which settings there are, where it comes among the other changes,
// several devices.

#include <set>

#include "banyan/data/random_parts.hpp"
#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;
using Pixels = std::vector<std::uint8_t>;
using Values = std::vector<float>;

caffe::TransformationParameter transform_of(const std::string& text) {
  caffe::TransformationParameter settings;
  io::parse_text(text, "test", settings);
  return settings;
}

TEST(NoiseParam, ValuesOutOfRangeAreRefused) {
  const auto refusal = [](const std::string& noise) {
    return bad_input_of([&] { check_part_transform(transform_of("noise_param { " + noise + " }"), "data"); });
  };
  EXPECT_THAT(refusal("prob: 1.5"),
              HasSubstr("layer \"data\": transform_param.noise_param.prob must be in [0, 1], not 1.5"));
  for (const char* quality : {"0.5", "101", "nan"})
    EXPECT_THAT(refusal(cat("jpeg: ", quality)), HasSubstr("jpeg must be in [1, 100], not")) << quality;
  EXPECT_THAT(refusal("saltpepper_param { fraction: 2 }"),
              HasSubstr("noise_param.saltpepper_param.fraction must be in [0, 1], not 2"));
  EXPECT_THAT(refusal("saltpepper_param { value: [0, 256] }"),
              HasSubstr("value must be in [0, 255], not 256"));
  EXPECT_THAT(refusal("saltpepper: true"),
              HasSubstr("saltpepper needs one value in saltpepper_param, or three"));
  EXPECT_THAT(refusal("saltpepper: true saltpepper_param { value: [1, 2] }"), HasSubstr("not 2"));
  EXPECT_THAT(refusal("convert_to_hsv: true convert_to_lab: true"), HasSubstr("exclude each other"));
  check_part_transform(transform_of("noise_param { jpeg: -1 saltpepper_param { value: [1, 2] } }"), "data");
}

/// Of one channel, row by row.
struct Row {
  explicit Row(Pixels values) : pixels(std::move(values)) {
    record.channels = record.height = 1;
    record.width = static_cast<int>(pixels.size());
    record.bytes = pixels.data();
    record.label = 7;
  }
  Values written(const std::string& transform, bool random = false, std::uint64_t item = 0) const {
    const PartWriter writer(transform_of(transform), random, 1, 5, "data");
    Values values(static_cast<std::size_t>(writer.shapes(record, item)[0].count()));
    float label = 0;
    writer.write(record, item, {.dtype = DType::f32, .outputs = {values.data(), &label}});
    EXPECT_EQ(label, 7);
    return values;
  }
  Pixels pixels;
  Record record;
};

TEST(NoiseParam, FollowsTheResizeAndPrecedesCropAndMean) {
  const Row row({10, 20, 30, 200, 210, 220});
  const std::string half = "resize_param { height: 1 width: 3 interp_mode: AREA } ";
  for (const bool random : {false, true}) {
    EXPECT_EQ(row.written("noise_param { inverse: true }", random), (Values{245, 235, 225, 55, 45, 35}));
    EXPECT_EQ(row.written(half + "noise_param { erode: true } mean_value: 5 scale: 2", random),
              (Values{20, 20, 220}));
  }
  EXPECT_EQ(row.written("noise_param { erode: true } crop_h: 1 crop_w: 2"), (Values{20, 30}))
      << "with a neighbour that is cut off";
  EXPECT_EQ(row.written("noise_param { prob: 1 }"), Values(row.pixels.begin(), row.pixels.end()));
}

TEST(NoiseParam, FollowsColoursInTraining) {
  const Row row({100, 101});
  const std::string bright = "distort_param { contrast_prob: 1 contrast_lower: 2 contrast_upper: 2 } ";
  EXPECT_EQ(row.written(bright + "noise_param { inverse: true }", true), (Values{55, 53}));
  EXPECT_EQ(row.written(bright + "noise_param { inverse: true } crop_size: 1 fix_crop: true", true).size(),
            1U);
  EXPECT_EQ(row.written(bright + "noise_param { inverse: true }", false), (Values{155, 154}));
}

TEST(NoiseParam, NeedsBytes) {
  Row row({1, 2});
  const std::vector<float> values(2);
  row.record.bytes = nullptr;
  row.record.floats = values.data();
  EXPECT_THAT(bad_input_of([&] { row.written("noise_param { inverse: true }"); }),
              HasSubstr("float_data: only 8-bit images are changed by noise_param"));
  EXPECT_EQ(row.written("noise_param { prob: 1 }"), values);
}

class NoiseParamOfData : public FolderTest {
 protected:
  std::string text(int batch) const {
    return "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" + path("lmdb") +
           "' backend: LMDB batch_size: " + std::to_string(batch) +
           " } transform_param { distort_param { brightness_prob: 0.5 "
           "brightness_delta: 20 } noise_param { prob: 0.6 gauss_blur: true saltpepper: true "
           "saltpepper_param { "
           "fraction: 0.2 value: 0 } convert_to_hsv: true } }";
  }
};

TEST_F(NoiseParamOfData, IsTheSameForAnyNumberOfDevicesAndAfterResuming) {
  {
    LmdbWriter lmdb(path("lmdb"));
    const Image image = gradient_image(3, 8, 9);
    for (int i = 0; i < 8; ++i)
      lmdb.put(key_of(static_cast<std::uint64_t>(i)), raw_datum(3, 8, 9, image.pixels.data(), i));
    lmdb.close();
  }
  Replica alone(text(4)), first(text(2), 0, 2), second(text(2), 1, 2), resumed(text(4));
  resumed.source().seek(4);
  std::set<std::vector<double>> images;
  for (int step = 0; step < 2; ++step) {
    for (Replica* replica : {&alone, &first, &second}) replica->step();
    expect_dealt(alone, {&first, &second}, 0);
    const std::vector<double> pixels = alone.values(0);
    for (auto from = pixels.begin(); from != pixels.end(); from += 3 * 8 * 9)
      images.emplace(from, from + 3 * 8 * 9);
  }
  EXPECT_GE(images.size(), 4U) << "one image, changed in several ways";
  EXPECT_EQ(resumed.step(), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(resumed.values(0), alone.values(0));
}

}  // namespace
}  // namespace banyan::data
