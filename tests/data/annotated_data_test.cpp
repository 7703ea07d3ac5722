// The AnnotatedData layer.

#include <cmath>
#include <map>
#include <set>

#include "banyan/data/leveldb.hpp"
#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kBackground = 60, kObject = 200;

/// A rectangle of pixels, [x1, x2) x [y1, y2).
struct Rectangle {
  int x1, y1, x2, y2;
};

/// Dark, with bright rectangles.
Image scene(int height, int width, const std::vector<Rectangle>& objects, int channels = 3) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      int value = kBackground;
      for (const Rectangle& o : objects)
        if (x >= o.x1 && x < o.x2 && y >= o.y1 && y < o.y2) value = kObject;
      image.pixels.insert(image.pixels.end(), static_cast<std::size_t>(channels),
                          static_cast<std::uint8_t>(value));
    }
  return image;
}

/// Object k has label k + 1 and instance 10 + k; the last one is difficult.
caffe::AnnotatedDatum annotated(int height, int width, const std::vector<Rectangle>& objects,
                                bool encoded = true, int channels = 3) {
  const Image image = scene(height, width, objects, channels);
  caffe::AnnotatedDatum datum;
  std::string bytes;
  if (encoded) {
    const auto file = encode_image(image, "png");
    bytes = encoded_datum({reinterpret_cast<const char*>(file.data()), file.size()}, 0);
  } else {
    std::vector<std::uint8_t> planes;
    for (int c = 0; c < channels; ++c)
      for (int i = 0; i < height * width; ++i)
        planes.push_back(image.pixels[static_cast<std::size_t>(i * channels + c)]);
    bytes = raw_datum(channels, height, width, planes.data(), 0);
  }
  datum.mutable_datum()->ParseFromString(bytes);
  datum.set_type(caffe::AnnotatedDatum::BBOX);
  for (std::size_t k = 0; k < objects.size(); ++k) {
    caffe::AnnotationGroup& group = *datum.add_annotation_group();
    group.set_group_label(static_cast<int>(k) + 1);
    caffe::Annotation& annotation = *group.add_annotation();
    annotation.set_instance_id(static_cast<int>(k) + 10);
    caffe::NormalizedBBox& box = *annotation.mutable_bbox();
    box.set_xmin(static_cast<float>(objects[k].x1) / static_cast<float>(width));
    box.set_ymin(static_cast<float>(objects[k].y1) / static_cast<float>(height));
    box.set_xmax(static_cast<float>(objects[k].x2) / static_cast<float>(width));
    box.set_ymax(static_cast<float>(objects[k].y2) / static_cast<float>(height));
    box.set_difficult(k + 1 == objects.size());
  }
  return datum;
}

class AnnotatedData : public FolderTest {
 protected:
  void put(const std::vector<caffe::AnnotatedDatum>& records) {
    LmdbWriter writer(path("db"), true);
    for (std::size_t i = 0; i < records.size(); ++i) writer.put(key_of(i), records[i].SerializeAsString());
    writer.close();
  }
  std::string text(int batch, const std::string& annotations = "", const std::string& transform = "",
                   const std::string& data = "") {
    return "name: 'a' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" + path("db") +
           "' batch_size: " + std::to_string(batch) + " " + data + " } annotated_data_param { " +
           annotations + " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

using Rows = std::vector<std::vector<double>>;

/// Of the table; those of -1 are left out.
Rows rows_of(Replica& replica) {
  const std::vector<double> values = replica.values(1);
  Rows rows;
  for (std::size_t r = 0; r + 8 <= values.size(); r += 8) {
    const std::vector<double> row(values.begin() + static_cast<std::ptrdiff_t>(r),
                                  values.begin() + static_cast<std::ptrdiff_t>(r) + 8);
    if (row[0] == -1)
      EXPECT_THAT(row, Each(-1));
    else
      rows.push_back(row);
  }
  return rows;
}

TEST_F(AnnotatedData, GivesImagesAndATableOfTheirObjects) {
  put({annotated(4, 8, {{1, 1, 3, 2}, {4, 0, 8, 4}}), annotated(4, 8, {}), annotated(4, 8, {{0, 0, 2, 4}})});
  Replica replica(text(3));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{3, 3, 4, 8}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 1, 8}));
  replica.step();
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 4, 8}));  // three objects
  EXPECT_EQ(rows_of(replica), (Rows{{0, 1, 10, 0.125, 0.25, 0.375, 0.5, 0},
                                    {0, 2, 11, 0.5, 0, 1, 1, 1},
                                    {2, 1, 10, 0, 0, 0.25, 1, 1}}));
  EXPECT_EQ(replica.values(0)[8], kBackground);
  EXPECT_EQ(replica.values(0)[9], kObject);
  // A batch without objects has one row of -1.
  Replica one(text(1));
  one.step();
  EXPECT_EQ(one.outputs[1]->shape, (Shape{1, 1, 2, 8}));
  one.step();
  EXPECT_EQ(one.values(1), std::vector<double>(8, -1));
}

TEST_F(AnnotatedData, TheTableIsOptionalAndRecordsMayHoldPixels) {
  put({annotated(4, 8, {{1, 1, 4, 2}}, false)});
  std::string only = text(1, "", "resize_param { height: 2 width: 4 interp_mode: NEAREST }");
  only.replace(only.find("top: 'label'"), 12, "");
  Replica replica(only, 0, 1, Phase::train, false, DType::f64);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 4}));
  EXPECT_EQ(replica.values(0), (std::vector<double>{kObject, kObject, 60, 60, 60, 60, 60, 60,
                                                    kObject, kObject, 60, 60, 60, 60, 60, 60,
                                                    kObject, kObject, 60, 60, 60, 60, 60, 60}))
      << "rows 1, 3 and columns 1, 3, 5, 7";
}

/// The bright pixels of an item: where its only object is.
Box bright(const std::vector<double>& values, const Shape& shape, std::size_t item) {
  const int height = static_cast<int>(shape[2]), width = static_cast<int>(shape[3]);
  Box box{1, 1, 0, 0};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      if (values[(item * 3 * static_cast<std::size_t>(height) + static_cast<std::size_t>(y)) *
                     static_cast<std::size_t>(width) +
                 static_cast<std::size_t>(x)] > (kBackground + kObject) / 2) {
        box.x1 = std::min(box.x1, static_cast<double>(x) / width);
        box.y1 = std::min(box.y1, static_cast<double>(y) / height);
        box.x2 = std::max(box.x2, static_cast<double>(x + 1) / width);
        box.y2 = std::max(box.y2, static_cast<double>(y + 1) / height);
      }
  return box;
}

const char* const kSamplers =
    "batch_sampler { max_sample: 1 max_trials: 1 } "
    "batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } "
    "sample_constraint { min_jaccard_overlap: 0.1 } max_sample: 1 max_trials: 50 } "
    "batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } "
    "max_sample: 1 max_trials: 50 } ";

/// Whatever is done to the image, the box is where the bright pixels are, up to the pixels that a side
/// rounds to.
TEST_F(AnnotatedData, BoxesFollowThePixels) {
  put({annotated(60, 80, {{20, 10, 50, 40}}), annotated(80, 50, {{5, 30, 40, 70}})});
  const std::string resizes[] = {
      "resize_param { height: 64 width: 64 interp_mode: LINEAR interp_mode: AREA interp_mode: NEAREST "
      "interp_mode: CUBIC interp_mode: LANCZOS4 }",
      "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 64 width: 72 pad_value: 20 }",
      "resize_param { resize_mode: FIT_SMALL_SIZE height: 48 width: 48 } crop_size: 48"};
  for (const std::string& resize : resizes)
    for (const char* expansion : {"", "expand_param { prob: 0.7 max_expand_ratio: 3 } mean_value: 30 "}) {
      Replica replica(text(60, kSamplers, resize + " mirror: true " + expansion));
      replica.step();
      const Shape& shape = replica.outputs[0]->shape;
      const double tolerance = 2.6 / 48;  // pixels of the result, to which a small part is enlarged
      std::vector<double> values = replica.values(0);
      std::set<double> widths;
      int compared = 0;
      for (const std::vector<double>& row : rows_of(replica)) {
        const Box found = bright(values, shape, static_cast<std::size_t>(row[0]));
        if (row[5] - row[3] < 4.0 / 48 || row[6] - row[4] < 4.0 / 48) continue;
        ++compared;
        widths.insert(row[5] - row[3]);
        EXPECT_NEAR(found.x1, row[3], tolerance) << resize << " item " << row[0];
        EXPECT_NEAR(found.y1, row[4], tolerance) << resize << " item " << row[0];
        EXPECT_NEAR(found.x2, row[5], tolerance) << resize << " item " << row[0];
        EXPECT_NEAR(found.y2, row[6], tolerance) << resize << " item " << row[0];
      }
      EXPECT_GE(compared, 30);
      EXPECT_GE(widths.size(), 10u);
    }
}

TEST_F(AnnotatedData, MirrorsAndCropsAsDataDoes) {
  put({annotated(8, 8, {{1, 1, 3, 7}})});
  Replica replica(text(40, "", "mirror: true crop_size: 6"), 0, 1, Phase::test);
  replica.step();
  std::set<double> starts;
  for (const std::vector<double>& row : rows_of(replica)) {
    starts.insert(std::round(6 * row[3]));
    EXPECT_NEAR(row[4], 0, 1e-6);  // rows 1 to 6 of 8 are left
    EXPECT_NEAR(row[6], 1, 1e-6);
  }
  EXPECT_EQ(starts, (std::set<double>{0, 4}));  // columns 0 and 1, mirrored 4 and 5
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{40, 3, 6, 6}));
}

TEST_F(AnnotatedData, CropsNeedNotBeSquare) {
  put({annotated(8, 8, {{1, 1, 3, 7}})});
  Replica replica(text(1, "", "crop_h: 4 crop_w: 8"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 4, 8}));
  const std::vector<double> row = rows_of(replica).at(0);  // rows 2 to 5 of 8 are left, and all columns
  for (const auto& [at, expected] : {std::pair{3, 1.0 / 8}, {4, 0.0}, {5, 3.0 / 8}, {6, 1.0}})
    EXPECT_NEAR(row[static_cast<std::size_t>(at)], expected, 1e-6) << at;
}

TEST_F(AnnotatedData, EmitConstraintDropsObjectsThatAreCutOff) {
  put({annotated(8, 8, {{0, 0, 3, 8}, {3, 3, 5, 5}})});  // columns 2 to 5 are left: a third of the first
  const auto labels = [&](const std::string& constraint) {
    Replica replica(text(1, "", "crop_size: 4 " + constraint), 0, 1, Phase::test);
    replica.step();
    std::vector<int> found;
    for (const std::vector<double>& row : rows_of(replica)) found.push_back(static_cast<int>(row[1]));
    return found;
  };
  EXPECT_EQ(labels(""), (std::vector<int>{1, 2}));
  EXPECT_EQ(labels("emit_constraint { emit_type: CENTER }"), (std::vector<int>{2}));
  EXPECT_EQ(labels("emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 0.1 }"), (std::vector<int>{1, 2}));
  EXPECT_EQ(labels("emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 0.5 }"), (std::vector<int>{2}));
}

TEST_F(AnnotatedData, ExpansionFillsWithTheMeanAndPaddingAsItsModeSays) {
  put({annotated(4, 4, {{0, 0, 4, 4}})});
  {
    Replica replica(text(20, "",
                         "expand_param { max_expand_ratio: 4 } mean_value: 50.3 "
                         "resize_param { height: 32 width: 32 interp_mode: NEAREST }"));
    replica.step();
    std::set<double> seen;
    for (const double value : replica.values(0)) seen.insert(std::round(10 * value));
    EXPECT_EQ(seen, (std::set<double>{-3, 1497}));  // pixels have 8 bits: 50 - 50.3, 200 - 50.3
  }
  const auto row = [&](const std::string& mode) {
    put({annotated(2, 4, {{0, 0, 1, 1}})});
    Replica padded(text(1, "",
                        "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 4 width: 4 "
                        "interp_mode: NEAREST " +
                            mode + " }"));
    padded.step();
    const std::vector<double> values = padded.values(0);
    EXPECT_EQ(rows_of(padded)[0], (std::vector<double>{0, 1, 10, 0, 0.25, 0.25, 0.5, 1}));
    return std::vector<double>(values.begin(), values.begin() + 4);
  };
  EXPECT_EQ(row("pad_value: 7"), (std::vector<double>{7, 7, 7, 7}));
  EXPECT_EQ(row("pad_mode: REPEAT_NEAREST"), (std::vector<double>{200, 60, 60, 60}));
  EXPECT_EQ(row("pad_mode: MIRRORED"), (std::vector<double>{60, 60, 60, 60})) << "the second row";
}

/// The table without items' numbers, by global item, and the pixels.
using Items = std::vector<std::pair<Rows, std::vector<double>>>;

Items serve(const std::string& text, int devices, int steps, std::uint64_t from = 0) {
  Items all;
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    if (from > 0) replica.source().seek(from);
    for (int k = 0; k < steps; ++k) {
      replica.step();
      const std::vector<double> pixels = replica.values(0);
      const auto count = static_cast<std::size_t>(replica.outputs[0]->shape[0]);
      const auto place = [&](std::size_t i) {
        return (static_cast<std::size_t>(k) * count + i) * static_cast<std::size_t>(devices) +
               static_cast<std::size_t>(rank);
      };
      all.resize(std::max(all.size(), place(count - 1) + 1));
      const auto each = static_cast<std::ptrdiff_t>(pixels.size() / count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i) * each;
        all[place(i)].second.assign(first, first + each);
      }
      for (const std::vector<double>& row : rows_of(replica))
        all[place(static_cast<std::size_t>(row[0]))].first.emplace_back(row.begin() + 1, row.end());
    }
  }
  return all;
}

/// SSD's: boxes of an image that was resized to its shorter side count in parts of another size.
TEST_F(AnnotatedData, ScalesOfBoxesAreThoseOfAnotherImage) {
  put({annotated(20, 50, {{5, 4, 25, 10}})});
  const auto row = [&](const std::string& resize, const std::string& more = "") {
    Replica replica(text(1, "", "resize_param { height: 8 width: 8 " + resize + " } " + more), 0, 1,
                    Phase::test);
    replica.step();
    Rows rows = rows_of(replica);
    return std::vector<double>(rows.at(0).begin() + 3, rows.at(0).begin() + 7);
  };
  const auto near = [](std::vector<double> wanted) {
    std::vector<::testing::Matcher<double>> all;
    for (const double value : wanted) all.push_back(::testing::DoubleNear(value, 1e-6));
    return ::testing::ElementsAreArray(all);
  };
  const std::string fit = "resize_mode: FIT_SMALL_SIZE ", scales = "height_scale: 4 width_scale: 5 ";
  // 8 x 20 pixels.
  EXPECT_THAT(row(fit + scales), near({0.1 * 4, 0.2 * 2, 0.5 * 4, 0.5 * 2}));
  EXPECT_THAT(row(fit + scales, "mirror: true"),
              ::testing::AnyOf(near({0.4, 0.4, 2, 1}), near({0.5 * 4, 0.4, 0.9 * 4, 1})));
  // Of them the middle 8: columns 6 to 13.
  EXPECT_THAT(row(fit + scales, "crop_size: 8"), near({0, 0.4, 0.5 * 8 / 5, 1}));
  for (const std::string& other : {fit, fit + "height_scale: 4 ", scales})
    EXPECT_THAT(row(other), near({0.1, 0.2, 0.5, 0.5})) << other;
  EXPECT_THAT(row("resize_mode: FIT_LARGE_SIZE_AND_PAD " + scales),
              near({0.1, 0.25 + 0.2 * 3 / 8, 0.5, 0.25 + 0.5 * 3 / 8}));
}

TEST_F(AnnotatedData, LengthsBeforeTheirRoundingScaleBoxes) {
  put({annotated(30, 40, {{10, 0, 20, 30}})});  // resized to 8 x 10.67, that is 8 x 10
  Replica replica(text(1, "",
                       "resize_param { height: 8 width: 8 resize_mode: FIT_SMALL_SIZE height_scale: 8 "
                       "width_scale: 8 }"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 8, 10}));
  EXPECT_NEAR(rows_of(replica).at(0)[5], 0.5 * 32 / 24, 1e-6);
}

TEST_F(AnnotatedData, SeveralDevicesTogetherAreOneAndAnyPositionIsRepeated) {
  put({annotated(30, 40, {{2, 3, 20, 20}, {20, 5, 38, 28}}), annotated(25, 25, {{5, 5, 20, 20}}),
       annotated(20, 45, {})});
  const std::string transform =
      "mirror: true expand_param { prob: 0.5 max_expand_ratio: 2 } resize_param { height: 12 width: 16 "
      "interp_mode: LINEAR interp_mode: AREA } distort_param { brightness_prob: 0.5 brightness_delta: 32 "
      "hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 "
      "contrast_prob: 0.5 contrast_lower: 0.5 contrast_upper: 1.5 random_order_prob: 0.5 } noise_param { "
      "prob: 0.5 clahe: true saltpepper: true "
      "saltpepper_param { fraction: 0.1 value: 255 } }";
  const auto settings = [&](int batch) {
    return text(batch, kSamplers, transform, "shuffle: true threads: 2");
  };
  const Items one = serve(settings(12), 1, 3);
  for (const int devices : {2, 3}) EXPECT_EQ(serve(settings(12 / devices), devices, 3), one) << devices;
  EXPECT_EQ(serve(settings(12), 1, 1, 24), Items(one.begin() + 24, one.end()));
}

TEST_F(AnnotatedData, NoiseFollowsTheResizeAndPrecedesTheMean) {
  put({annotated(4, 4, {{2, 0, 4, 4}})});
  // Two columns, of which the dark one erodes the bright one.
  const std::string changes =
      "resize_param { height: 2 width: 2 interp_mode: AREA } mean_value: 50 noise_param { ";
  const auto pixels = [&](const std::string& noise) {
    Replica replica(text(1, "", changes + noise));
    replica.step();
    EXPECT_EQ(rows_of(replica), (Rows{{0, 1, 10, 0.5, 0, 1, 1, 1}}));
    return replica.values(0);
  };
  constexpr double kDark = kBackground - 50, kBright = kObject - 50;
  EXPECT_EQ(pixels("prob: 1 }"), (std::vector<double>{kDark, kBright, kDark, kBright, kDark, kBright, kDark,
                                                      kBright, kDark, kBright, kDark, kBright}));
  EXPECT_THAT(pixels("erode: true }"), Each(kDark));
  EXPECT_THAT(pixels("decolorize: true prob: 1 erode: true inverse: true }"), Each(255 - kBackground - 50));
  EXPECT_EQ(pixels("prob: 1 }"), pixels("prob: 0 erode: true }"));
}

TEST_F(AnnotatedData, ADeviceWithoutItemsHasAnEmptyTable) {
  put({annotated(4, 4, {{0, 0, 2, 2}})});
  Replica second(text(1, "", "", "batch_size_is_total: true"), 1, 2);
  second.step();
  EXPECT_EQ(second.outputs[0]->shape, (Shape{0, 3, 4, 4}));
  EXPECT_EQ(second.values(1), std::vector<double>(8, -1));
}

TEST_F(AnnotatedData, ReadsLevelDb) {
  if (!has_leveldb()) GTEST_SKIP();
  const auto writer = make_leveldb_writer(path("db"), false);
  writer->put("0", annotated(4, 4, {{0, 0, 2, 2}}).SerializeAsString());
  writer->close();
  Replica replica(text(1, "", "", "backend: LEVELDB"));
  replica.step();
  EXPECT_EQ(rows_of(replica), (Rows{{0, 1, 10, 0, 0, 0.5, 0.5, 1}}));
}

TEST_F(AnnotatedData, LabelMapsAndTypesOfAnnotations) {
  caffe::AnnotatedDatum datum = annotated(4, 4, {{0, 0, 2, 2}});
  write_file(path("map"), std::string("item { name: 'none' label: 0 } item { name: 'cat' label: 1 }"));
  const std::string with_map = "label_map_file: '" + path("map") + "' ";
  put({datum});
  Replica(text(1, with_map)).step();
  datum.clear_type();
  put({datum});
  EXPECT_THAT(refusal(text(1)), AllOf(HasSubstr("record 0"), HasSubstr("anno_type is not given")));
  Replica(text(1, "anno_type: BBOX")).step();
  datum.mutable_annotation_group(0)->set_group_label(7);
  put({datum});
  EXPECT_THAT(refusal(text(1, with_map + "anno_type: BBOX")),
              AllOf(HasSubstr("record 0"), HasSubstr("label 7"), HasSubstr("/map")));
  EXPECT_THAT(refusal(text(1, "label_map_file: '" + path("no_map") + "'")), HasSubstr("no_map"));
}

TEST_F(AnnotatedData, RefusesWhatDoesNotFit) {
  put({annotated(4, 4, {{0, 0, 2, 2}}), annotated(6, 6, {}, true, 1)});
  EXPECT_THAT(refusal(text(1, "", "noise_param { prob: 2 }")),
              HasSubstr("layer \"a\": transform_param.noise_param.prob must be in [0, 1], not 2"));
  EXPECT_THAT(refusal(text(1, "", "resize_param { height: 4 }")),
              HasSubstr("resize_param.width must be in [1"));
  const std::string fitted = "resize_param { resize_mode: FIT_SMALL_SIZE height: 4 width: 4 ";
  EXPECT_THAT(refusal(text(1, "", fitted + "height_scale: 4 width_scale: 6 }")),
              AllOf(HasSubstr("record 0"), HasSubstr("width_scale 6 of resize_param are larger")));
  EXPECT_THAT(refusal(text(1, "", fitted + "height_scale: 40000 }")),
              HasSubstr("height_scale must be in [0"));
  EXPECT_THAT(refusal(text(1, "", "distort_param { hue_prob: 1.5 }")),
              HasSubstr("hue_prob must be in [0, 1]"));
  EXPECT_THAT(refusal(text(1, "", "distort_param { contrast_lower: 0.5 contrast_upper: 0.2 }")),
              HasSubstr("contrast_upper must be at least 0.5, not 0.2"));
  EXPECT_THAT(refusal(text(1, "", "expand_param { max_expand_ratio: 0.5 }")), HasSubstr("max_expand_ratio"));
  EXPECT_THAT(refusal(text(1, "", "expand_param { max_expand_ratio: 2 } mean_file: 'm'")),
              HasSubstr("does not go with mean_file"));
  EXPECT_THAT(refusal(text(1, "batch_sampler { sampler { min_scale: 0 } }")),
              HasSubstr("sampler.min_scale must be in"));
  EXPECT_THAT(refusal(text(1, "batch_sampler { sampler { max_scale: 1.5 } }")), HasSubstr("max_scale"));
  EXPECT_THAT(refusal(text(2)), AllOf(HasSubstr("record 1"), HasSubstr("1 x 6 x 6")));
  EXPECT_THAT(refusal(text(1, "",
                           "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 4 width: 8 "
                           "pad_value: 1 pad_value: 2 }")),
              AllOf(HasSubstr("record 0"), HasSubstr("2 values of pad_value")));
  put({annotated(4, 4, {}, true, 1)});
  EXPECT_THAT(refusal(text(1, "", "distort_param { hue_prob: 1 hue_delta: 5 }")),
              AllOf(HasSubstr("record 0"), HasSubstr("force_color")));
  caffe::AnnotatedDatum datum = annotated(4, 4, {{0, 0, 2, 2}});
  datum.mutable_annotation_group(0)->mutable_annotation(0)->mutable_bbox()->set_xmax(NAN);
  put({datum});
  EXPECT_THAT(refusal(text(1)), AllOf(HasSubstr("record 0"), HasSubstr("not finite")));
  datum.Clear();
  datum.mutable_datum()->set_channels(1);
  datum.mutable_datum()->set_height(1);
  datum.mutable_datum()->set_width(1);
  datum.mutable_datum()->add_float_data(1);
  datum.set_type(caffe::AnnotatedDatum::BBOX);
  put({datum});
  Replica(text(1)).step();
  EXPECT_THAT(refusal(text(1, "", "resize_param { height: 4 width: 4 }")), HasSubstr("float_data"));
  EXPECT_THAT(refusal(text(1, "", "noise_param { erode: true }")), HasSubstr("float_data"));
  LmdbWriter writer(path("db"), true);
  writer.put("0", raw_datum(1, 1, 1, reinterpret_cast<const std::uint8_t*>("x"), 3));
  writer.close();
  EXPECT_THAT(refusal(text(1)), AllOf(HasSubstr("record 0"), HasSubstr("read by Data")));
}

}  // namespace
}  // namespace banyan::data
