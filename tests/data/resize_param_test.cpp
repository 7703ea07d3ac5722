// resize_param in Data and ImageData (SSD, ducha-aiki): sizes, pictures, what is drawn, several devices.

#include <map>
#include <set>

#include "banyan/data/random_parts.hpp"
#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<float>;

PartWriter writer(const std::string& text, bool random = true) {
  caffe::TransformationParameter settings;
  io::parse_text(text, "test", settings);
  return {settings, random, 1, 5, "data"};
}

/// Of one channel; row by row.
struct Picture {
  Picture(int height, int width, std::vector<std::uint8_t> values) : pixels(std::move(values)) {
    record.channels = 1;
    record.height = height;
    record.width = width;
    record.bytes = pixels.data();
    record.label = 7;
  }
  std::vector<std::uint8_t> pixels;
  Record record;
};

Values written(const PartWriter& writer, const Record& record, std::uint64_t item = 0) {
  Values pixels(static_cast<std::size_t>(writer.shapes(record, item)[0].count()));
  float label = 0;
  writer.write(record, item, {.dtype = DType::f32, .outputs = {pixels.data(), &label}});
  EXPECT_EQ(label, 7);
  return pixels;
}

TEST(ResizeParam, SizesByMode) {
  const auto size = [](const std::string& settings, int height, int width) {
    Record record;
    record.channels = 3;
    record.height = height;
    record.width = width;
    return writer("resize_param { " + settings + " }", false).shapes(record, 0)[0];
  };
  const std::string small = "resize_mode: FIT_SMALL_SIZE height: 144 width: 144";
  EXPECT_EQ(size("height: 20 width: 30", 100, 200), (Shape{3, 20, 30}));
  EXPECT_EQ(size(small, 375, 500), (Shape{3, 144, 192}));
  EXPECT_EQ(size(small, 500, 333), (Shape{3, 216, 144}));
  EXPECT_EQ(size(small, 100, 100), (Shape{3, 144, 144}));
  EXPECT_EQ(size("resize_mode: FIT_SMALL_SIZE height: 100 width: 50", 300, 200), (Shape{3, 100, 66}));
  EXPECT_EQ(size("resize_mode: FIT_LARGE_SIZE_AND_PAD height: 40 width: 60", 500, 333), (Shape{3, 40, 60}));
  EXPECT_EQ(
      size(small + " } crop_size: 128 mirror: true scale: 0.04 resize_param { prob: 0 height: 1 width: 1",
           375, 500),
      (Shape{3, 128, 128}));
}

TEST(ResizeParam, APictureIsResizedBeforeItIsCutAndScaled) {
  const Picture picture(2, 4, {0, 40, 100, 200, 20, 60, 120, 220});
  EXPECT_EQ(written(writer("resize_param { height: 1 width: 2 interp_mode: AREA }"), picture.record),
            (Values{30, 160}));
  EXPECT_EQ(written(writer("resize_param { height: 1 width: 2 interp_mode: AREA } mean_value: 10 scale: 0.5"),
                    picture.record),
            (Values{10, 75}));
  const std::string twice = "resize_param { height: 4 width: 8 interp_mode: NEAREST } ";
  EXPECT_EQ(written(writer(twice + "crop_size: 2", false), picture.record), (Values{40, 100, 60, 120}));
  EXPECT_EQ(written(writer(twice + "crop_h: 4 crop_w: 2", false), picture.record),
            (Values{40, 100, 40, 100, 60, 120, 60, 120}));
  const Values other = written(writer("resize_param { prob: 0 height: 1 width: 2 }"), picture.record);
  EXPECT_EQ(other, Values(picture.pixels.begin(), picture.pixels.end()));
}

TEST(ResizeParam, WhatIsAroundAPictureFollowsItsMode) {
  const Picture picture(2, 4, {0, 40, 100, 200, 20, 60, 120, 220});
  const auto rows = [&](const std::string& mode) {
    const Values found = written(
        writer("resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 5 width: 4 interp_mode: NEAREST " +
               mode + " }"),
        picture.record);
    EXPECT_EQ(found.size(), 20u);
    std::vector<float> first;
    for (std::size_t row = 0; row < found.size(); row += 4) first.push_back(found[row]);
    return first;
  };
  // One row before the picture, two after it.
  EXPECT_EQ(rows(""), (Values{0, 0, 20, 0, 0}));
  EXPECT_EQ(rows("pad_value: 9"), (Values{9, 0, 20, 9, 9}));
  EXPECT_EQ(rows("pad_mode: REPEAT_NEAREST pad_value: 9"), (Values{0, 0, 20, 20, 20}));
  EXPECT_EQ(rows("pad_mode: MIRRORED"), (Values{20, 0, 20, 0, 20}));
}

TEST(ResizeParam, OfSeveralEachImageTakesOneByItsProb) {
  const Picture picture(3, 3, std::vector<std::uint8_t>(9, 50));
  for (const bool random : {false, true}) {
    const PartWriter one_of =
        writer("resize_param { prob: 0.3 height: 2 width: 2 } resize_param { prob: 0.7 height: 4 width: 5 }",
               random);
    std::map<std::int64_t, int> found;
    for (std::uint64_t item = 0; item < 1000; ++item) {
      const std::vector<Shape> shapes = one_of.shapes(picture.record, item);
      ++found[shapes[0].count()];
      EXPECT_EQ(shapes, one_of.shapes(picture.record, item));
      EXPECT_EQ(written(one_of, picture.record, item),
                Values(static_cast<std::size_t>(shapes[0].count()), 50));
    }
    EXPECT_EQ(found.size(), 2u);
    EXPECT_NEAR(found[4], 300, 60);  // 4 of sqrt(1000 x 0.3 x 0.7)
    EXPECT_EQ(found[4] + found[20], 1000);
  }
  const PartWriter sometimes = writer("resize_param { prob: 0.25 height: 2 width: 2 }");
  int small = 0;
  for (std::uint64_t item = 0; item < 1000; ++item)
    small += sometimes.shapes(picture.record, item)[0].count() == 4;
  EXPECT_NEAR(small, 250, 60);
}

TEST(ResizeParam, AnyOfTheInterpolationsIsTaken) {
  const Picture picture(1, 4, {0, 100, 200, 40});
  const PartWriter any = writer("resize_param { height: 1 width: 2 interp_mode: [AREA, NEAREST] }");
  std::set<Values> found;
  for (std::uint64_t item = 0; item < 50; ++item) found.insert(written(any, picture.record, item));
  EXPECT_EQ(found, (std::set<Values>{{50, 120}, {100, 40}}));
}

TEST(ResizeParam, PartsAndColoursFollow) {
  const Picture picture(2, 2, {10, 10, 10, 10});
  const PartWriter training = writer(
      "crop_size: 3 fix_crop: true distort_param { brightness_prob: 1 brightness_delta: 0 } "
      "resize_param { height: 6 width: 7 }");
  EXPECT_EQ(written(training, picture.record), Values(9, 10));
}

TEST(ResizeParam, RefusesWhatItCannotDo) {
  const auto refused = [](const std::string& text) { return bad_input_of([&] { writer(text); }); };
  EXPECT_THAT(refused("resize_param { height: 4 }"), HasSubstr("resize_param.width must be in [1"));
  EXPECT_THAT(refused("resize_param { height: 4 width: 4 prob: 2 }"), HasSubstr("prob must be in [0, 1]"));
  EXPECT_THAT(refused("resize_param { height: 4 width: 4 center_object: true }"),
              HasSubstr("layer \"data\": transform_param.resize_param.center_object: true is not supported"));
  EXPECT_THAT(refused("resize_param { height: 4 width: 4 max_angle: 10 }"),
              HasSubstr("max_angle must be 0, not 10"));
  EXPECT_THAT(refused("resize_param { height: 4 width: 4 } resize_param { height: 8 width: 8 }"),
              HasSubstr("resize_param is given 2 times; their prob must add up to 1, not 2"));
  EXPECT_NO_THROW(
      writer("resize_param { prob: 0.33 height: 4 width: 4 center_object: false max_angle: 0 } "
             "resize_param { prob: 0.66 height: 8 width: 8 }"));
  const Picture picture(1, 4, {0, 100, 200, 40});
  EXPECT_THAT(bad_input_of([&] {
                written(writer("resize_param { height: 4 width: 4 pad_value: [1, 2] }"), picture.record);
              }),
              HasSubstr("resize_param has 2 values of pad_value"));
  EXPECT_THAT(bad_input_of([&] {
                written(writer("crop_size: 5 resize_param { height: 4 width: 9 }"), picture.record);
              }),
              HasSubstr("crop_size 5 is larger than the image (4 x 9)"));
  Record floats = picture.record;
  const Values values(4);
  floats.bytes = nullptr;
  floats.floats = values.data();
  EXPECT_THAT(bad_input_of([&] { written(writer("resize_param { height: 4 width: 4 }"), floats); }),
              HasSubstr("float_data: only 8-bit images are resized by resize_param"));
}

class ResizedData : public FolderTest {
 protected:
  /// Images of several sizes as files, in a list and in an LMDB.
  void SetUp() override {
    FolderTest::SetUp();
    LmdbWriter lmdb(path("db"));
    std::string list;
    for (int i = 0; i < 7; ++i) {
      const auto file = encode_image(gradient_image(3, 9 + i, 14 - i), "png");
      const std::string name = "image " + std::to_string(i) + ".png";
      write_file(path(name), file);
      list += name + " " + std::to_string(i) + "\n";
      lmdb.put(key_of(static_cast<std::uint64_t>(i)),
               encoded_datum({reinterpret_cast<const char*>(file.data()), file.size()}, i));
    }
    lmdb.close();
    write_file(path("list"), list);
  }
  std::string of_lmdb(int batch, const std::string& transform) const {
    return "name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '" + path("db") +
           "' batch_size: " + std::to_string(batch) + " } transform_param { " + transform + " }";
  }
  std::string of_list(int batch, const std::string& transform) const {
    return "name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
           path("list") + "' root_folder: '" + path("") + "' batch_size: " + std::to_string(batch) +
           " } transform_param { " + transform + " }";
  }
};

constexpr const char* kDrawn =
    "crop_size: 5 mirror: true resize_param { prob: 0.4 resize_mode: FIT_SMALL_SIZE height: 6 width: 6 "
    "interp_mode: CUBIC } resize_param { prob: 0.6 resize_mode: FIT_LARGE_SIZE_AND_PAD height: 7 width: 8 "
    "pad_mode: MIRRORED }";

TEST_F(ResizedData, NDevicesSeeWhatOneDeviceSees) {
  const std::size_t length = 3 * 5 * 5;
  Replica one(of_lmdb(6, kDrawn));
  std::map<std::size_t, std::vector<double>> whole;  // by item
  for (std::size_t step = 0; step < 3; ++step) {
    one.step();
    ASSERT_EQ(one.outputs[0]->shape, (Shape{6, 3, 5, 5}));
    const std::vector<double> pixels = one.values(0);
    for (std::size_t k = 0; k < 6; ++k)
      whole[6 * step + k].assign(pixels.begin() + static_cast<std::ptrdiff_t>(k * length),
                                 pixels.begin() + static_cast<std::ptrdiff_t>((k + 1) * length));
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Replica share(of_lmdb(3, kDrawn), static_cast<int>(rank), 2);
    for (std::size_t step = 0; step < 3; ++step) {
      share.step();
      const std::vector<double> pixels = share.values(0);
      for (std::size_t k = 0; k < 3; ++k)
        EXPECT_EQ(whole[6 * step + 2 * k + rank],
                  std::vector<double>(pixels.begin() + static_cast<std::ptrdiff_t>(k * length),
                                      pixels.begin() + static_cast<std::ptrdiff_t>((k + 1) * length)))
            << rank << " " << step << " " << k;
    }
  }
}

TEST_F(ResizedData, ListsOfImagesToo) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    Replica lmdb(of_lmdb(7, kDrawn), 0, 1, phase), list(of_list(7, kDrawn), 0, 1, phase);
    EXPECT_EQ(lmdb.step(), list.step());
    EXPECT_EQ(lmdb.values(0), list.values(0));
  }
  const std::string of_size = "resize_param { height: 4 width: 6 }";
  Replica list(of_list(7, of_size));
  list.step();
  EXPECT_EQ(list.outputs[0]->shape, (Shape{7, 3, 4, 6}));
  EXPECT_THAT(bad_input_of([&] {
                Replica(of_list(7, "resize_param { resize_mode: FIT_SMALL_SIZE height: 4 width: 6 }")).step();
              }),
              AllOf(HasSubstr("image 2.png"), HasSubstr("3 x 5 x 6")));
}

}  // namespace
}  // namespace banyan::data
