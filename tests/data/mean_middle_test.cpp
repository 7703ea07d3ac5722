// A mean image with NVIDIA's random sizes: its middle is subtracted from each part.
#include "banyan/data/random_parts.hpp"
#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

constexpr int kMiddleRows = 12, kMiddleColumns = 20, kMeanHeight = 7, kMeanWidth = 8, kMiddleSide = 4;

class MeanMiddle : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    for (int i = 0; i < 2 * kMiddleRows * kMiddleColumns; ++i)
      pixels_.push_back(static_cast<std::uint8_t>(i * 7));
    record_.channels = 2;
    record_.height = kMiddleRows;
    record_.width = kMiddleColumns;
    record_.bytes = pixels_.data();
    caffe::BlobProto blob;
    blob.set_num(1);
    blob.set_channels(2);
    blob.set_height(kMeanHeight);
    blob.set_width(kMeanWidth);
    for (int i = 0; i < 2 * kMeanHeight * kMeanWidth; ++i) blob.add_data(static_cast<float>(i));
    write_file(path("mean"), blob.SerializeAsString());
  }
  std::vector<float> part(const std::string& settings, bool random, std::uint64_t item) const {
    caffe::TransformationParameter transform;
    io::parse_text(settings, "test", transform);
    const PartWriter writer(transform, random, 1, 5, "data");
    std::vector<float> values(static_cast<std::size_t>(writer.shapes(record_, item)[0].count()));
    float label = 0;
    writer.write(record_, item, {.dtype = DType::f32, .outputs = {values.data(), &label}});
    return values;
  }
  std::string mean() const { return "mean_file: '" + path("mean") + "' "; }

  std::vector<std::uint8_t> pixels_;
  Record record_;
};

TEST_F(MeanMiddle, IsSubtractedBeforeMirroring) {
  const std::string sizes = "crop_size: 4 scale: 0.5 img_rand_resize_lower: 9 img_rand_resize_upper: 14 ";
  int mirrored = 0;
  for (const bool random : {true, false})
    for (std::uint64_t item = 0; item < 40; ++item) {
      const std::vector<float> plain = part(sizes, random, item),
                               turned = part(sizes + "mirror: true", random, item),
                               found = part(mean() + sizes + "mirror: true", random, item);
      const bool mirror = turned != plain;
      mirrored += mirror ? 1 : 0;
      ASSERT_EQ(found.size(), 2u * kMiddleSide * kMiddleSide);
      for (int c = 0; c < 2; ++c)
        for (int y = 0; y < kMiddleSide; ++y)
          for (int x = 0; x < kMiddleSide; ++x) {
            const int row = (kMeanHeight - kMiddleSide) / 2 + y, column = (kMeanWidth - kMiddleSide) / 2 + x;
            const auto of_mean = static_cast<float>((c * kMeanHeight + row) * kMeanWidth + column);
            const int out = mirror ? kMiddleSide - 1 - x : x, line = (c * kMiddleSide + y) * kMiddleSide;
            EXPECT_EQ(found[static_cast<std::size_t>(line + out)],
                      plain[static_cast<std::size_t>(line + x)] - 0.5f * of_mean);
          }
    }
  EXPECT_GT(mirrored, 10);
}

TEST_F(MeanMiddle, MustBeLargeEnough) {
  EXPECT_THAT(bad_input_of([&] {
                part(mean() + "crop_size: 8 img_rand_resize_lower: 9 img_rand_resize_upper: 14", true, 0);
              }),
              HasSubstr("is 2 x 7 x 8, smaller than crop_size 8"));
  EXPECT_THAT(bad_input_of([&] {
                part(mean() + "crop_size: 4 random_resize_param { min_size: 9 max_size: 14 }", true, 0);
              }),
              HasSubstr("give mean_value"));
}

}  // namespace
}  // namespace banyan::data
