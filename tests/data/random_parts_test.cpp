#include "banyan/data/random_parts.hpp"

#include <cmath>
#include <map>
#include <set>

#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/distortion.hpp"
#include "data/resampling.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<float>;

caffe::TransformationParameter settings_of(const std::string& text) {
  caffe::TransformationParameter settings;
  io::parse_text(text, "test", settings);
  return settings;
}

/// Planar pixels, all different within a channel of up to 256.
struct Sample {
  Sample(int channels, int height, int width) {
    for (int c = 0; c < channels; ++c)
      for (int i = 0; i < height * width; ++i) pixels.push_back(static_cast<std::uint8_t>(i + c));
    record.channels = channels;
    record.height = height;
    record.width = width;
    record.bytes = pixels.data();
    record.label = 7;
  }
  std::vector<std::uint8_t> pixels;
  Record record;
};

Values written(const PartWriter& writer, const Record& record, std::uint64_t item = 0) {
  const std::vector<Shape> shapes = writer.shapes(record, item);
  Values pixels(static_cast<std::size_t>(shapes[0].count()));
  float label = 0;
  writer.write(record, item, {.dtype = DType::f32, .outputs = {pixels.data(), &label}});
  EXPECT_EQ(label, 7);
  return pixels;
}

PartWriter writer(const std::string& text, bool random = true, std::uint64_t seed = 1) {
  return {settings_of(text), random, seed, 5, "data"};
}

TEST(PartWriter, FixedPlacesAreAllReachedAndNoOthers) {
  const Sample sample(1, 12, 20);
  for (const bool more : {false, true}) {
    const PartWriter parts =
        writer(std::string("crop_size: 4 fix_crop: true more_fix_crop: ") + (more ? "true" : "false"));
    std::set<float> found, expected;
    for (std::uint64_t item = 0; item < 400; ++item) found.insert(written(parts, sample.record, item)[0]);
    for (const auto& [top, left] : fixed_places(12, 20, 4, 4, more))
      expected.insert(static_cast<float>(20 * top + left));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(expected.size(), more ? 13u : 5u);
  }
}

TEST(PartWriter, ScaledPartsAreResizedToTheCrop) {
  const Sample sample(2, 12, 20);
  const PartWriter parts =
      writer("crop_size: 5 multi_scale: true fix_crop: true scale_ratios: [1, 0.75, 0.5] max_distort: 1");
  std::set<Values> found, expected;
  for (std::uint64_t item = 0; item < 1000; ++item) found.insert(written(parts, sample.record, item));
  const auto crops = scaled_crops(12, 20, 5, {1, 0.75f, 0.5f}, 1);
  ASSERT_EQ(crops.size(), 7u);  // 12 and 9 pixels, and 6, which becomes 5
  for (const auto& [height, width] : crops)
    for (const auto& [top, left] : fixed_places(12, 20, height, width, false)) {
      Image resized;
      resize_bilinear(cut(sample.record, {top, left, height, width}), 5, 5, resized);
      Values planar;
      for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t i = 0; i < 25; ++i) planar.push_back(resized.pixels[2 * i + c]);
      expected.insert(planar);
    }
  EXPECT_EQ(found, expected);
}

/// Of an item; within the image.
PixelBox drawn(const RandomParts& parts, int height, int width, std::uint64_t item) {
  ItemDraws numbers({3, 4, 0}, item);
  const PixelBox box = parts.draw(height, width, numbers);
  EXPECT_TRUE(box.top >= 0 && box.left >= 0 && box.top + box.height <= height &&
              box.left + box.width <= width);
  return box;
}

TEST(RandomParts, OfAnyAreaAndShapeWithinTheLimits) {
  const RandomParts parts(settings_of("crop_size: 4 original_image: true"));
  const int height = 300, width = 400, draws = 4000;
  double shares = 0;
  bool wide = false, high = false;
  for (std::uint64_t item = 0; item < draws; ++item) {
    const PixelBox box = drawn(parts, height, width, item);
    const double share = double(box.height) * box.width / (height * width);
    const double aspect = double(box.width) / box.height;
    // Sides are whole pixels, of at least 80.
    ASSERT_TRUE(share > 0.079 && share <= 1 && aspect > 0.74 && aspect < 1.35) << share << " " << aspect;
    shares += share;
    wide |= aspect > 1.3;
    high |= aspect < 0.77;
  }
  EXPECT_TRUE(wide && high);
  // An aspect a fits while share * a * width * height <= width^2 and share / a * width * height <= height^2:
  // up to a share of min(4 / (3 a), 3 a / 4), 1 at a = 4/3 and 0.5625 at a = 3/4. The mean of what fits, by
  // quadrature:
  double sum = 0, count = 0;
  for (int i = 0; i < 1000; ++i) {
    const double a = 0.75 + (i + 0.5) / 1000 * (4.0 / 3 - 0.75),
                 most = std::min(1.0, std::min(4 / (3 * a), 0.75 * a));
    sum += (most * most - 0.08 * 0.08) / 2;
    count += most - 0.08;
  }
  EXPECT_NEAR(shares / draws, sum / count, 0.02);  // 5 standard errors of 0.25 / sqrt(4000)
}

TEST(RandomParts, OfTheAspectsOfIntel) {
  const RandomParts parts(
      settings_of("crop_size: 4 random_aspect_ratio_param { min_area_ratio: 0.08 max_area_ratio: 0.5 "
                  "aspect_ratio_change: 0.75 }"));
  const int height = 300, width = 400, draws = 4000;
  double least = 1, most = 0, flattest = 1, steepest = 1;
  int wide = 0;
  for (std::uint64_t item = 0; item < draws; ++item) {
    const PixelBox box = drawn(parts, height, width, item);
    const double share = double(box.height) * box.width / (height * width);
    const double aspect = double(box.width) / box.height;
    least = std::min(least, share);
    most = std::max(most, share);
    flattest = std::max(flattest, aspect);
    steepest = std::min(steepest, aspect);
    wide += box.width > box.height;
  }
  // Sides are whole pixels, rounded down, of at least 73; the aspect is the change squared, either way.
  EXPECT_TRUE(least > 0.078 && least < 0.09 && most > 0.48 && most <= 0.5) << least << " " << most;
  EXPECT_TRUE(flattest > 1.7 && flattest < 1.81 && steepest < 0.6 && steepest > 0.55)
      << flattest << " " << steepest;
  // Half of them, and about 1 % more because some high ones do not fit; 5 standard errors of 0.5 /
  // sqrt(4000).
  EXPECT_NEAR(wide, 0.51 * draws, 0.04 * draws);
}

TEST(RandomParts, ASquareAnywhereWhereNoAspectFits) {
  // The sides of the last one are up to 1e10 times those of a square.
  for (const char* settings : {"min_area_ratio: 1", "max_attempt: 0", "aspect_ratio_change: 1e-10"}) {
    const RandomParts parts(
        settings_of(std::string("crop_size: 4 random_aspect_ratio_param { ") + settings + "}"));
    std::set<int> lefts;
    for (std::uint64_t item = 0; item < 200; ++item) {
      ItemDraws numbers({3, 4, 0}, item);
      const PixelBox box = parts.draw(16, 20, numbers);
      ASSERT_EQ(box, (PixelBox{0, box.left, 16, 16}));
      lefts.insert(box.left);
    }
    EXPECT_EQ(lefts, (std::set<int>{0, 1, 2, 3, 4})) << settings;
  }
}

TEST(RandomParts, TheCentreWhereNothingFits) {
  const RandomParts parts(settings_of("crop_size: 4 original_image: true original_min_scale: 1"));
  ItemDraws numbers({3, 4, 0}, 5);
  EXPECT_EQ(parts.draw(16, 1000, numbers), (PixelBox{1, 493, 14, 14}));
}

/// The part of the image, resized in this way to 4 x 4.
Values resized_part(const Sample& sample, const PixelBox& box, caffe::ResizeParameter::Interp_mode how) {
  Image resized;
  resize_image(cut(sample.record, box), 4, 4, how, resized);
  return {resized.pixels.begin(), resized.pixels.end()};
}

TEST(PartWriter, TheShorterSideHasARandomLength) {
  using Resize = caffe::ResizeParameter;
  const Sample sample(1, 12, 20);
  const auto parts_of = [&](int side, Resize::Interp_mode how) {
    std::set<Values> parts;
    for (int top = 0; top + side <= 12; ++top)
      for (int left = 0; left + side <= 20; ++left)
        parts.insert(resized_part(sample, {top, left, side, side}, how));
    return parts;
  };
  struct Case {
    std::string text;
    Resize::Interp_mode smaller, larger;
  };
  // Lengths 6, 12 and 16: parts of 8, 4 and 3 pixels, which become 4.
  for (const Case& c :
       {Case{"img_rand_resize_lower: 6 img_rand_resize_upper: 16 allow_upscale: true", Resize::LINEAR,
             Resize::LINEAR},
        Case{"img_rand_resize_lower: 6 img_rand_resize_upper: 16 interpolation_algo_down: INTER_AREA "
             "interpolation_algo_up: INTER_CUBIC allow_upscale: true",
             Resize::AREA, Resize::CUBIC},
        Case{"random_resize_param { min_size: 6 max_size: 16 resize_param { interp_mode: NEAREST } }",
             Resize::NEAREST, Resize::NEAREST}}) {
    const PartWriter training = writer("crop_size: 4 " + c.text);
    std::set<Values> found, expected;
    for (int item = 0; item < 4000; ++item) found.insert(written(training, sample.record, item));
    // 12 * 4 / length, rounded.
    for (const int side : {8, 7, 6, 5, 4, 3}) expected.merge(parts_of(side, side > 4 ? c.smaller : c.larger));
    for (const Values& part : found) EXPECT_TRUE(expected.contains(part)) << c.text;
    for (const int side : {8, 3}) {
      int seen = 0;
      for (const Values& part : parts_of(side, side > 4 ? c.smaller : c.larger)) seen += found.contains(part);
      EXPECT_GT(seen, 20) << c.text << " " << side;
    }
    // Length 11.
    EXPECT_EQ(written(writer("crop_size: 4 " + c.text, false), sample.record),
              resized_part(sample, {4, 8, 4, 4}, c.smaller));
  }
}

/// Where the settings leave nothing to chance but the place; `text` of NVIDIA's for a crop of 4.
PixelBox size_of_part(const std::string& text, int height, int width) {
  PixelBox box = drawn(RandomParts(settings_of("crop_size: 4 " + text)), height, width, 0);
  box.top = box.left = 0;
  return box;
}

TEST(RandomParts, SidesAreStretchedAsInNvidias) {
  const std::string half = "vertical_stretch_lower: 0.5 vertical_stretch_upper: 0.5 ",
                    twice = "horizontal_stretch_lower: 2 horizontal_stretch_upper: 2 ",
                    upscale = "allow_upscale: true ",
                    eight = "img_rand_resize_lower: 8 img_rand_resize_upper: 8 ";
  const auto longer = [](const std::string& by) {
    return "rand_resize_ratio_lower: " + by + " rand_resize_ratio_upper: " + by + " ";
  };
  // Of 12 x 20 pixels, which become:
  EXPECT_EQ(size_of_part(half, 12, 20), (PixelBox{0, 0, 8, 4}));                    // 6 x 20
  EXPECT_EQ(size_of_part(half + eight, 12, 20), (PixelBox{0, 0, 12, 6}));           // 4 x 13 1/3
  EXPECT_EQ(size_of_part(twice, 12, 20), (PixelBox{0, 0, 4, 4}));                   // as they are
  EXPECT_EQ(size_of_part(twice + upscale, 12, 20), (PixelBox{0, 0, 4, 2}));         // 12 x 40
  EXPECT_EQ(size_of_part(twice + half + upscale, 12, 20), (PixelBox{0, 0, 8, 2}));  // 6 x 40
  EXPECT_EQ(size_of_part(longer("1.25"), 12, 20), (PixelBox{0, 0, 4, 5}));          // 12 x 15
  EXPECT_EQ(size_of_part(longer("1.25"), 20, 12), (PixelBox{0, 0, 5, 4}));
  EXPECT_EQ(size_of_part(longer("1.25") + eight, 12, 20), (PixelBox{0, 0, 6, 8}));  // 8 x 10
  EXPECT_EQ(size_of_part(longer("3"), 12, 20), (PixelBox{0, 0, 4, 4}));             // not larger than before
  // At least as large as the crop, and images that are smaller than it grow.
  EXPECT_EQ(size_of_part("vertical_stretch_lower: 0.1 vertical_stretch_upper: 0.1", 12, 20),
            (PixelBox{0, 0, 12, 4}));
  EXPECT_EQ(size_of_part(eight, 3, 5), (PixelBox{0, 0, 3, 3}));
  EXPECT_EQ(size_of_part(eight + upscale, 3, 5), (PixelBox{0, 0, 2, 2}));
  // Without both limits there is no factor, and a ratio begins at 1.
  for (const std::string none :
       {"vertical_stretch_lower: 0", "rand_resize_ratio_lower: 0.5 rand_resize_ratio_upper: 2",
        "rand_resize_ratio_upper: 2"})
    EXPECT_FALSE(RandomParts(settings_of("crop_size: 4 " + none)).any()) << none;
  // A square becomes high or wide.
  std::set<int> heights;
  const RandomParts square(settings_of("crop_size: 4 " + longer("2") + upscale));
  for (std::uint64_t item = 0; item < 40; ++item) {
    const PixelBox box = drawn(square, 12, 12, item);
    EXPECT_EQ(box.height + box.width, 6);
    heights.insert(box.height);
  }
  EXPECT_EQ(heights, (std::set<int>{2, 4}));
}

TEST(RandomParts, StretchesAreDrawnEvenlyAndOfEachSideAlone) {
  const RandomParts parts(
      settings_of("crop_size: 100 vertical_stretch_lower: 0.5 horizontal_stretch_lower: 0.5"));
  const int draws = 4000;
  double heights = 0, widths = 0, products = 0;
  for (std::uint64_t item = 0; item < draws; ++item) {
    const PixelBox box = drawn(parts, 400, 500, item);
    ASSERT_TRUE(box.height >= 100 && box.height <= 200 && box.width >= 100 && box.width <= 200);
    heights += box.height;
    widths += box.width;
    products += double(box.height) * box.width;
  }
  const double mean = 200 * std::log(2);  // of 100 / u, u even in [0.5, 1]; standard deviation: 28.0
  EXPECT_NEAR(heights / draws, mean, 2.5);
  EXPECT_NEAR(widths / draws, mean, 2.5);
  EXPECT_NEAR(products / draws, mean * mean, 500);
  // Tests see the middle: a factor of 0.75.
  EXPECT_EQ(parts.centre(400, 500), (PixelBox{(400 - 133) / 2, (500 - 133) / 2, 133, 133}));
}

TEST(PartWriter, InterpolatesAsAskedWhereASideGrows) {
  using Resize = caffe::ResizeParameter;
  const Sample sample(1, 12, 20);
  const std::string how =
      "crop_size: 4 interpolation_algo_down: INTER_AREA interpolation_algo_up: INTER_CUBIC ";
  const auto parts_of = [&](int height, int width, Resize::Interp_mode mode) {
    std::set<Values> parts;
    for (int top = 0; top + height <= 12; ++top)
      for (int left = 0; left + width <= 20; ++left)
        parts.insert(resized_part(sample, {top, left, height, width}, mode));
    return parts;
  };
  const auto found = [&](const std::string& text) {
    std::set<Values> parts;
    const PartWriter training = writer(how + text);
    for (int item = 0; item < 2000; ++item) parts.insert(written(training, sample.record, item));
    return parts;
  };
  const std::string half = "vertical_stretch_lower: 0.5 vertical_stretch_upper: 0.5 ";
  EXPECT_EQ(found(half), parts_of(8, 4, Resize::AREA));
  EXPECT_EQ(found(half + "horizontal_stretch_lower: 2 horizontal_stretch_upper: 2 allow_upscale: true"),
            parts_of(8, 2, Resize::CUBIC));
}

TEST(PartWriter, ResizesPartsOfAnAspectAsAsked) {
  using Resize = caffe::ResizeParameter;
  const Sample sample(1, 12, 20);
  const std::string text =
      "crop_size: 4 random_aspect_ratio_param { min_area_ratio: 0.6 max_area_ratio: 0.6 "
      "resize_param { interp_mode: CUBIC } }";
  const PartWriter training = writer(text);
  std::set<Values> found, expected;
  for (int item = 0; item < 1000; ++item) found.insert(written(training, sample.record, item));
  // sqrt(0.6 * 240) = 12: squares of 12 pixels.
  for (int left = 0; left <= 8; ++left)
    expected.insert(resized_part(sample, {0, left, 12, 12}, Resize::CUBIC));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(written(writer(text, false), sample.record),
            written(writer("crop_size: 4", false), sample.record));
}

TEST(PartWriter, RefusesLengthsThatDoNotFit) {
  const auto refusal = [](const std::string& text) {
    try {
      check_part_transform(settings_of(text), "d");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("img_rand_resize_lower: 6 img_rand_resize_upper: 16"),
              HasSubstr("crop_size is missing"));
  EXPECT_THAT(refusal("crop_size: 4 img_rand_resize_lower: 6"),
              HasSubstr("the smaller one first, not 6 and 0"));
  EXPECT_THAT(refusal("crop_size: 8 img_rand_resize_lower: 6 img_rand_resize_upper: 16"),
              HasSubstr("less than crop_size 8"));
  EXPECT_THAT(
      refusal("crop_size: 4 random_resize_param { min_size: 6 max_size: 9 resize_param { height: 3 } }"),
      HasSubstr("one interp_mode and nothing else"));
  EXPECT_THAT(refusal("crop_size: 4 random_resize_param { min_size: 6 max_size: 9 } original_image: true"),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(refusal("crop_size: 4 random_resize_param { min_size: 6 max_size: 9 } mean_file: 'm'"),
              HasSubstr("give mean_value"));
  EXPECT_EQ(refusal("crop_size: 4 random_resize_param { min_size: 6 max_size: 9 }"), "");
  EXPECT_THAT(refusal("vertical_stretch_lower: 0.5"), HasSubstr("crop_size is missing"));
  EXPECT_THAT(
      refusal("crop_size: 4 vertical_stretch_lower: 2"),
      HasSubstr(
          "vertical_stretch_lower and _upper must be from 0 to 1000, the smaller one first, not 2 and 1"));
  EXPECT_THAT(refusal("crop_size: 4 horizontal_stretch_upper: -1"), HasSubstr("not 1 and -1"));
  EXPECT_THAT(refusal("crop_size: 4 rand_resize_ratio_lower: 3 rand_resize_ratio_upper: 2"),
              HasSubstr("not 3 and 2"));
  EXPECT_THAT(refusal("crop_size: 4 vertical_stretch_lower: 0.5 fix_crop: true"),
              HasSubstr("rand_resize_ratio and stretches cannot be combined"));
  EXPECT_THAT(
      refusal("crop_size: 4 vertical_stretch_lower: 0.5 random_resize_param { min_size: 6 max_size: 9 }"),
      HasSubstr("cannot be combined with rand_resize_ratio and stretches"));
  EXPECT_EQ(
      refusal("crop_size: 4 vertical_stretch_lower: 0.5 mean_file: 'm' interpolation_algo_up: INTER_AREA"),
      "");
}

TEST(PartWriter, TestsCutTheCentre) {
  const Sample sample(1, 6, 8);
  const std::string crop = "crop_size: 2 mean_value: 1 scale: 2 ";
  const Values centre = {2 * (19 - 1), 2 * (20 - 1), 2 * (27 - 1), 2 * (28 - 1)};
  for (const std::string more : {"", "original_image: true", "multi_scale: true fix_crop: true",
                                 "distort_param { brightness_prob: 1 brightness_delta: 100 }"})
    EXPECT_EQ(written(writer(crop + more, false), sample.record), centre) << more;
}

TEST(PartWriter, MirroredFlowChangesItsSign) {
  const Sample sample(4, 1, 2);  // x, y, x, y of two frames
  const Values as_is = {0, 1, 1, 2, 2, 3, 3, 4};
  const Values mirrored = {254, 255, 2, 1, 252, 253, 4, 3};
  for (const bool random : {false, true}) {
    const PartWriter flow = writer("mirror: true is_flow: true", random);
    std::set<Values> found;
    for (std::uint64_t item = 0; item < 40; ++item) found.insert(written(flow, sample.record, item));
    EXPECT_EQ(found, (std::set<Values>{as_is, mirrored}));
  }
}

TEST(PartWriter, MirroredFlowOfIntelChangesTheThirdChannel) {
  const Sample sample(3, 1, 2);
  const PartWriter flow = writer("mirror: true flow: true");
  std::set<Values> found;
  for (std::uint64_t item = 0; item < 40; ++item) found.insert(written(flow, sample.record, item));
  EXPECT_EQ(found, (std::set<Values>{{0, 1, 1, 2, 2, 3}, {1, 0, 2, 1, 252, 253}}));
}

TEST(PartWriter, FlowOfIntelNeedsAThirdChannel) {
  const Sample sample(2, 1, 2);
  for (const bool random : {false, true})
    EXPECT_THAT(bad_input_of([&] { written(writer("mirror: true flow: true", random), sample.record); }),
                HasSubstr("the image has 2 channels; flow changes the third one (is_flow"));
}

TEST(PartWriter, ColoursAreDistortedInTraining) {
  const Sample sample(3, 2, 2);
  const PartWriter bright = writer("distort_param { brightness_prob: 1 brightness_delta: 100 }");
  std::set<float> offsets;
  for (std::uint64_t item = 0; item < 50; ++item) {
    const Values output = written(bright, sample.record, item);
    // The largest value, 5, is not cut off where the offset is positive.
    const float offset = output.back() - 5;
    if (offset > 0) {
      for (std::size_t i = 0; i < 12; ++i)
        EXPECT_EQ(output[i], static_cast<float>(sample.pixels[i]) + offset);
    }
    offsets.insert(offset);
  }
  EXPECT_GT(offsets.size(), 10u);
  const Sample gray(1, 2, 2);
  EXPECT_THAT(
      bad_input_of([&] { written(writer("distort_param { hue_prob: 1 hue_delta: 9 }"), gray.record); }),
      HasSubstr("need 3"));
}

TEST(PartWriter, LightIsAlexNets) {
  const Sample sample(3, 2, 2);
  std::vector<std::uint8_t> middle(12, 128);
  Record gray = sample.record;
  gray.bytes = middle.data();
  const PartWriter light = writer("lighting_noise: 0.1");
  const int items = 2000;
  double squares[3] = {}, products = 0;
  for (std::uint64_t item = 0; item < items; ++item) {
    const Values output = written(light, gray, item);  // B, G, R planes
    for (std::size_t i = 0; i < 12; ++i)
      EXPECT_EQ(output[i], output[i / 4 * 4]) << "one light for all pixels";
    for (std::size_t c = 0; c < 3; ++c) squares[c] += std::pow(output[4 * c] - 128, 2) / items;
    products += (output[0] - 128) * (output[8] - 128) / items;
  }
  // Sums over k of (25.5 eigenvalue_k)^2 component_kb component_kc, and 1/12 from rounding; 5 standard errors
  // of sqrt(2 / 2000).
  const double expected[3] = {10.67, 10.47, 10.12};
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(squares[c], expected[c], 0.16 * expected[c]);
  EXPECT_NEAR(products, 10.07, 1.7) << "mostly brightness";
  EXPECT_EQ(written(writer("lighting_noise: 0.1", false), gray), Values(12, 128)) << "in tests";
  const Sample one(1, 2, 2);
  EXPECT_THAT(bad_input_of([&] { written(light, one.record); }), HasSubstr("lighting_noise needs 3"));
}

TEST(PartWriter, ShortEdgeIsDrawnForEachImage) {
  const Sample sample(3, 12, 17);
  const auto fitted = [](int length) {
    const std::string side = std::to_string(length);
    return writer("crop_size: 5 resize_param { resize_mode: FIT_SMALL_SIZE height: " + side +
                  " width: " + side + " }");
  };
  const std::string edges = "crop_size: 5 rand_crop_test: true short_edge: 6 short_edge: 8 ";
  const PartWriter drawn = writer(edges), same = writer("crop_size: 5 short_edge: 7 short_edge: 7");
  EXPECT_EQ(drawn.shapes(sample.record, 0)[0], (Shape{3, 5, 5}));
  std::set<int> found;
  for (std::uint64_t item = 0; item < 60; ++item) {
    const Values output = written(drawn, sample.record, item);
    int equal = 0;
    for (int length = 6; length <= 8; ++length)
      if (output == written(fitted(length), sample.record, item)) equal += 1, found.insert(length);
    EXPECT_EQ(equal, 1);
    EXPECT_EQ(written(same, sample.record, item), written(fitted(7), sample.record, item));
    EXPECT_EQ(written(writer(edges, false), sample.record, item), output) << "in tests";
  }
  EXPECT_EQ(found, (std::set<int>{6, 7, 8}));
  // In tests one length needs no draw.
  writer("crop_size: 5 short_edge: 7 short_edge: 7", false);
  writer("crop_size: 5 short_edge: 6 short_edge: 7 mirror: true", false);
  EXPECT_THAT(bad_input_of([&] { writer("crop_size: 5 short_edge: 6 short_edge: 8", false); }),
              HasSubstr("only with rand_crop_test or mirror"));
}

TEST(PartWriter, TestsCropAtRandomIfAskedTo) {
  const Sample sample(1, 12, 17);
  for (std::uint64_t item = 0; item < 20; ++item) {
    const Values training = written(writer("crop_size: 3"), sample.record, item);
    EXPECT_EQ(written(writer("crop_size: 3 rand_crop_test: true", false), sample.record, item), training);
    EXPECT_EQ(written(writer("crop_size: 3", false), sample.record, item)[0], 4 * 17 + 7);
  }
}

TEST(PartWriter, EigsAddAMatrixTimesNormalNumbers) {
  const Sample sample(3, 2, 3);
  const std::string settings =
      "scale: 2 mean_value: 100 eigs: 1 eigs: 0 eigs: 0 eigs: 0 eigs: 2 eigs: 0 eigs: 3 eigs: -2 eigs: 0 ";
  const PartWriter with = writer(settings), without = writer("scale: 2 mean_value: 100");
  const Values plain = written(without, sample.record);
  const int items = 2000;
  double squares[2] = {}, product = 0;
  for (std::uint64_t item = 0; item < items; ++item) {
    const Values output = written(with, sample.record, item);
    double light[3];
    for (std::size_t c = 0; c < 3; ++c) {
      light[c] = output[6 * c] - plain[6 * c];
      for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(output[6 * c + i] - plain[6 * c + i], light[c], 1e-4);
    }
    EXPECT_NEAR(light[2], 3 * light[0] - light[1], 3e-4);
    for (int c = 0; c < 2; ++c) squares[c] += light[c] * light[c] / items;
    product += light[0] * light[1] / items;
  }
  // Deviations 0.2 and 0.4; 5 standard errors.
  EXPECT_NEAR(squares[0], 0.04, 0.16 * 0.04);
  EXPECT_NEAR(squares[1], 0.16, 0.16 * 0.16);
  EXPECT_NEAR(product, 0, 5 * 0.08 / std::sqrt(items));
  EXPECT_EQ(written(writer(settings, false), sample.record), plain) << "in tests";
  std::vector<float> last(18), first(18);
  float label = 0;
  with.write(sample.record, 3,
             {.dtype = DType::f32, .layout = Layout::channels_last, .outputs = {last.data(), &label}});
  with.write(sample.record, 3, {.dtype = DType::f32, .outputs = {first.data(), &label}});
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(last[i * 3 + c], first[c * 6 + i]);
  const Sample gray(1, 2, 2);
  EXPECT_THAT(bad_input_of([&] { written(with, gray.record); }), HasSubstr("1 channel, but eigs 9 numbers"));
  EXPECT_NE(written(writer("eigs_channels: 1 eigs: 5"), gray.record), written(writer(""), gray.record));
}

constexpr const char* kAllParts =
    "original_image: true lighting_noise: 1 distort_param { contrast_prob: 1 contrast_lower: 0.5 "
    "contrast_upper: 1.5 }";

class RandomPartsOfData : public FolderTest {
 protected:
  /// Pixels by label, of two steps of `devices` devices that have 4 items together.
  std::map<int, std::vector<double>> trained(int devices, int skip, const std::string& transform) {
    const std::string text = "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" +
                             path("lmdb") + "' backend: LMDB batch_size: " + std::to_string(4 / devices) +
                             " } transform_param { crop_size: 3 mirror: true " + transform + " }";
    std::map<int, std::vector<double>> found;
    for (int rank = 0; rank < devices; ++rank) {
      Replica replica(text, rank, devices);
      if (skip > 0) replica.source().seek(static_cast<std::uint64_t>(4 * skip));
      for (int step = skip; step < 2; ++step) {
        const std::vector<int> labels = replica.step();
        const std::vector<double> pixels = replica.values(0);
        for (std::size_t i = 0; i < labels.size(); ++i)
          found[labels[i]].assign(pixels.begin() + static_cast<std::ptrdiff_t>(27 * i),
                                  pixels.begin() + static_cast<std::ptrdiff_t>(27 * (i + 1)));
      }
    }
    return found;
  }
};

TEST_F(RandomPartsOfData, AreTheSameForAnyNumberOfDevicesAndAfterResuming) {
  {
    LmdbWriter lmdb(path("lmdb"));
    const Sample sample(3, 8, 9);
    for (int i = 0; i < 8; ++i)
      lmdb.put(key_of(static_cast<std::uint64_t>(i)), raw_datum(3, 8, 9, sample.pixels.data(), i));
    lmdb.close();
  }
  for (const std::string& transform :
       {std::string(kAllParts),
        std::string("short_edge: 4 short_edge: 6 eigs_channels: 3 eigs: 1 eigs: 2 eigs: "
                    "3 eigs: 4 eigs: 5 eigs: 6 eigs: 7 eigs: 8 eigs: 9")}) {
    const auto alone = trained(1, 0, transform);
    ASSERT_EQ(alone.size(), 8u);
    EXPECT_EQ(trained(2, 0, transform), alone);
    EXPECT_EQ(trained(4, 0, transform), alone);
    EXPECT_NE(alone.at(0), alone.at(1)) << "one image, cut in two ways";
    auto second = alone;
    for (int label = 0; label < 4; ++label) second.erase(label);
    EXPECT_EQ(trained(1, 1, transform), second);
  }
}

TEST(PartWriter, WhatCannotBeIsRefused) {
  const auto message = [](const std::string& text) {
    return bad_input_of([&] { check_part_transform(settings_of(text), "data"); });
  };
  EXPECT_THAT(message("multi_scale: true"), HasSubstr("transform_param.crop_size is missing"));
  EXPECT_THAT(message("crop_size: 2 multi_scale: true crop_h: 2 crop_w: 3"),
              HasSubstr("squares of crop_size"));
  EXPECT_NO_THROW(check_part_transform(settings_of("crop_h: 2 crop_w: 3 is_flow: true"), "data"));
  EXPECT_THAT(message("crop_size: 2 more_fix_crop: true"), HasSubstr("more_fix_crop needs fix_crop"));
  EXPECT_THAT(message("crop_size: 2 multi_scale: true scale_ratios: 1.5"), HasSubstr("(0, 1], not 1.5"));
  EXPECT_THAT(message("crop_size: 2 original_image: true original_min_scale: 0"), HasSubstr("(0, 1], not 0"));
  EXPECT_THAT(message("crop_size: 2 original_image: true fix_crop: true"), HasSubstr("cannot be combined"));
  EXPECT_THAT(message("crop_size: 2 fix_crop: true mean_file: 'x'"), HasSubstr("give mean_value"));
  EXPECT_THAT(message("is_flow: true pad: 1"), HasSubstr("pad cannot be combined"));
  EXPECT_THAT(message("distort_param { hue_prob: 2 }"), HasSubstr("hue_prob must be in [0, 1], not 2"));
  EXPECT_THAT(message("lighting_noise: -1"), HasSubstr("must not be negative, but is -1"));
  EXPECT_THAT(message("is_flow: true flow: true"), HasSubstr("sets both is_flow"));
  EXPECT_THAT(message("stride: 2"), HasSubstr("stride is not supported"));
  EXPECT_THAT(message("crop_size: 4 short_edge: 6"), HasSubstr("short_edge must be two lengths"));
  EXPECT_THAT(message("crop_size: 4 short_edge: 6 short_edge: 5"), HasSubstr("the smaller one first"));
  EXPECT_THAT(message("short_edge: 6 short_edge: 7"), HasSubstr("short_edge needs crop_size"));
  EXPECT_THAT(message("crop_h: 4 crop_w: 3 short_edge: 6 short_edge: 7"), HasSubstr("needs crop_size"));
  EXPECT_THAT(message("crop_size: 7 short_edge: 6 short_edge: 7"), HasSubstr("6 is less than crop_size 7"));
  EXPECT_THAT(message("crop_size: 4 short_edge: 6 short_edge: 7 multi_scale: true"),
              HasSubstr("short_edge does not go with resize_param, fix_crop"));
  EXPECT_THAT(message("crop_size: 4 short_edge: 6 short_edge: 7 resize_param { height: 5 width: 5 }"),
              HasSubstr("short_edge does not go with resize_param"));
  EXPECT_THAT(message("rand_crop_test: true"), HasSubstr("rand_crop_test needs crop_size"));
  EXPECT_THAT(message("crop_size: 4 rand_crop_test: true fix_crop: true"),
              HasSubstr("rand_crop_test does not go with fix_crop"));
  EXPECT_THAT(message("eigs: 1 eigs: 2"), HasSubstr("3 x 3; found 2 numbers"));
  EXPECT_THAT(message("eigs_channels: 1"), HasSubstr("eigs_channels needs eigs"));
  EXPECT_THAT(message("eigs_channels: 1 eigs: 2 pad: 1"), HasSubstr("pad cannot be combined with eigs"));
  EXPECT_THAT(message("bgr2rgb: true"),
              HasSubstr("not supported: channels stay in the order blue, green, red"));
  check_part_transform(settings_of("vertical_stretch_upper: 1 stride: 1 forward_packing: NHWC"), "data");
  const std::string aspect = "crop_size: 2 random_aspect_ratio_param { ";
  const auto names_it = [](const std::string& what) {
    return AllOf(HasSubstr(what), HasSubstr("random_aspect_ratio_param"));
  };
  EXPECT_THAT(message("random_aspect_ratio_param { }"), names_it("crop_size is missing"));
  EXPECT_THAT(message(aspect + "} mean_file: 'x'"), names_it("give mean_value"));
  EXPECT_THAT(message(aspect + "} pad: 1"), names_it("pad cannot be combined"));
  EXPECT_THAT(message(aspect + "} original_image: true"), HasSubstr("cannot be combined with random sizes"));
  EXPECT_THAT(message(aspect + "min_area_ratio: 0 }"), HasSubstr("the smaller one first, not 0 and 1"));
  EXPECT_THAT(message(aspect + "max_area_ratio: 0.25 }"), HasSubstr("not 0.5 and 0.25"));
  EXPECT_THAT(message(aspect + "aspect_ratio_change: 1.5 }"), HasSubstr("(0, 1], not 1.5"));
  EXPECT_THAT(message(aspect + "max_attempt: 2000 }"), HasSubstr("at most 1000"));
  EXPECT_THAT(message(aspect + "resize_param { height: 3 } }"),
              HasSubstr("one interp_mode and nothing else"));
  EXPECT_NO_THROW(check_part_transform(
      settings_of(aspect +
                  "min_area_ratio: 0.08 aspect_ratio_change: 0.75 resize_param { interp_mode: CUBIC } }"),
      "data"));
  const Sample sample(1, 3, 4);
  EXPECT_THAT(bad_input_of([&] { written(writer("crop_size: 4 fix_crop: true"), sample.record); }),
              HasSubstr("crop_size 4 is larger than the image (3 x 4)"));
  Record floats = sample.record;
  const std::vector<float> values(12);
  floats.bytes = nullptr;
  floats.floats = values.data();
  EXPECT_THAT(bad_input_of([&] { written(writer("crop_size: 2 fix_crop: true"), floats); }),
              HasSubstr("float_data"));
}

}  // namespace
}  // namespace banyan::data
