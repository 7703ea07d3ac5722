// AnnotatedData as YOLO's branches use it: rows of five numbers for each image, parts by jitter, and records
// of BoxData.
#include <cmath>

#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kYoloRows = 300, kYoloNumbers = 5;

/// 40 x 40 pixels, of which those of [x1, x2) x [y1, y2) are bright, as a file.
std::string yolo_image(int x1, int y1, int x2, int y2) {
  Image image{3, 40, 40, std::vector<std::uint8_t>(std::size_t{3} * 40 * 40, 50)};
  for (int y = y1; y < y2; ++y)
    for (int x = x1; x < x2; ++x)
      for (int c = 0; c < 3; ++c) image.pixels[static_cast<std::size_t>((y * 40 + x) * 3 + c)] = 250;
  const auto file = encode_image(image, "png");
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

struct YoloTruth {
  int label;
  double x1, y1, x2, y2;
  bool difficult = false;
};

std::string yolo_record(const std::vector<YoloTruth>& objects) {
  caffe::AnnotatedDatum record;
  record.mutable_datum()->ParseFromString(encoded_datum(yolo_image(10, 5, 30, 25), 0));
  record.set_type(caffe::AnnotatedDatum::BBOX);
  for (const YoloTruth& object : objects) {
    caffe::AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(object.label);
    caffe::NormalizedBBox& box = *group.add_annotation()->mutable_bbox();
    box.set_xmin(static_cast<float>(object.x1));
    box.set_ymin(static_cast<float>(object.y1));
    box.set_xmax(static_cast<float>(object.x2));
    box.set_ymax(static_cast<float>(object.y2));
    box.set_difficult(object.difficult);
  }
  return record.SerializeAsString();
}

class YoloData : public FolderTest {
 protected:
  void put(const std::vector<std::string>& records) {
    LmdbWriter writer(path("db"), true);
    for (std::size_t i = 0; i < records.size(); ++i) writer.put(key_of(i), records[i]);
    writer.close();
  }
  std::string text(int batch, const std::string& annotations, const std::string& transform = "") {
    return "name: 'a' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" + path("db") +
           "' batch_size: " + std::to_string(batch) + " } annotated_data_param { " + annotations +
           " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

constexpr const char* kWhole = "yolo_data_type: 1 yolo_data_jitter: 0 ";

TEST_F(YoloData, GivesEachImageRowsOfClassCentreAndSize) {
  put({yolo_record({{3, 0.25, 0.125, 0.75, 0.625}, {1, 0, 0, 0.5, 0.25, true}, {2, 0.5, 0.5, 1, 1}}),
       yolo_record({})});
  Replica replica(text(2, kWhole), 0, 1, Phase::train, false, DType::f64);
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{2, 1, 300, 5}));
  replica.step();
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{2, 1, 300, 5}));
  std::vector<double> expected(2 * kYoloRows * kYoloNumbers, 0);
  const std::vector<double> rows{2, 0.5, 0.375, 0.5, 0.5, 1, 0.75, 0.75, 0.5, 0.5};
  std::copy(rows.begin(), rows.end(), expected.begin());
  EXPECT_EQ(replica.values(1), expected);
}

TEST_F(YoloData, LeavesOutWhatDoesNotFit) {
  put({yolo_record(std::vector<YoloTruth>(350, {1, 0.25, 0.25, 0.5, 0.5}))});
  Replica replica(text(1, kWhole));
  replica.step();
  const std::vector<double> rows = replica.values(1);
  ASSERT_EQ(rows.size(), kYoloRows * kYoloNumbers);
  EXPECT_EQ(rows[kYoloNumbers * (kYoloRows - 1) + 3], 0.25);
}

/// Parts have sides of 70 to 100 % of the image's and any place, and boxes go with the pixels; in tests too.
TEST_F(YoloData, DrawsPartsByJitter) {
  put({yolo_record({{1, 10 / 40.0, 5 / 40.0, 30 / 40.0, 25 / 40.0}})});
  for (const Phase phase : {Phase::train, Phase::test}) {
    Replica replica(text(60, "yolo_data_type: 1", "mirror: true resize_param { height: 80 width: 80 }"), 0, 1,
                    phase);
    replica.step();
    const std::vector<double> pixels = replica.values(0), rows = replica.values(1);
    double least = 1, most = 0, ratios = 0;
    for (std::size_t i = 0; i < 60; ++i) {
      const double* row = rows.data() + i * kYoloRows * kYoloNumbers;
      ASSERT_GT(row[3], 0);
      double left = 80, right = 0, top = 80, bottom = 0;
      for (int y = 0; y < 80; ++y)
        for (int x = 0; x < 80; ++x)
          if (pixels[i * 3 * 6400 + static_cast<std::size_t>(y * 80 + x)] > 150) {
            left = std::min<double>(left, x), right = std::max<double>(right, x + 1);
            top = std::min<double>(top, y), bottom = std::max<double>(bottom, y + 1);
          }
      EXPECT_NEAR(row[1], (left + right) / 160, 0.035);
      EXPECT_NEAR(row[2], (top + bottom) / 160, 0.035);
      EXPECT_NEAR(row[3], (right - left) / 80, 0.05);
      EXPECT_NEAR(row[4], (bottom - top) / 80, 0.05);
      if (left == 0 || right == 80 || top == 0 || bottom == 80) continue;  // cut off
      least = std::min({least, row[3], row[4]});
      most = std::max({most, row[3], row[4]});
      ratios += std::abs(row[3] - row[4]) > 0.01;
    }
    EXPECT_NEAR(least, 0.5, 0.05);
    EXPECT_NEAR(most, 0.5 / 0.7, 0.06);
    EXPECT_GT(ratios, 10);
  }
}

TEST_F(YoloData, SeveralDevicesTogetherAreOne) {
  put({yolo_record({{1, 0.1, 0.1, 0.6, 0.7}, {2, 0.5, 0.2, 0.9, 0.4}}),
       yolo_record({{3, 0.3, 0.2, 0.9, 0.9}}), yolo_record({})});
  const auto serve = [&](int devices) {
    std::vector<std::vector<double>> items(6);
    for (int rank = 0; rank < devices; ++rank) {
      Replica replica(text(6 / devices, "yolo_data_type: 1 yolo_data_jitter: 0.4",
                           "mirror: true resize_param { height: 20 width: 20 }"),
                      rank, devices);
      replica.step();
      const std::vector<double> rows = replica.values(1);
      const std::size_t each = kYoloRows * kYoloNumbers;
      for (std::size_t i = 0; i < rows.size() / each; ++i)
        items[i * static_cast<std::size_t>(devices) + static_cast<std::size_t>(rank)].assign(
            rows.begin() + static_cast<std::ptrdiff_t>(i * each),
            rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    }
    return items;
  };
  const auto one = serve(1);
  EXPECT_NE(one[0], one[3]);  // the same record
  EXPECT_EQ(serve(2), one);
  EXPECT_EQ(serve(3), one);
}

TEST_F(YoloData, RefusesWhatMakesNoSense) {
  put({yolo_record({{0, 0.1, 0.1, 0.6, 0.7}})});
  EXPECT_THAT(refusal(text(1, kWhole)), AllOf(HasSubstr("record 0"), HasSubstr("label 0; with yolo_data")));
  EXPECT_THAT(refusal(text(1, "yolo_data_type: 2")), HasSubstr("yolo_data_type must be in [0, 1], not 2"));
  EXPECT_THAT(refusal(text(1, "yolo_data_jitter: 1")), HasSubstr("yolo_data_jitter must be in"));
}

std::string box_record(const std::vector<float>& numbers, bool encoded = true) {
  caffe::Datum record;
  record.ParseFromString(encoded_datum(yolo_image(10, 5, 30, 25), 0));
  record.set_channels(3);
  record.set_height(40);
  record.set_width(40);
  record.clear_label();
  for (const float number : numbers) record.add_float_data(number);
  record.set_encoded(encoded);
  return record.SerializeAsString();
}

TEST_F(YoloData, RecordsOfBoxDataHoldClassesFrom0CentresAndSizes) {
  put({box_record({0, 0, 0.5, 0.375, 0.5, 0.5, 4, 1, 0.25, 0.75, 0.25, 0.5}),
       box_record({1, 0, 0.5, 0.5, 1, 1}), yolo_record({{7, 0, 0, 1, 0.5}})});
  {
    Replica replica(text(3, ""), 0, 1, Phase::train, false, DType::f64);
    replica.step();
    EXPECT_EQ(replica.values(1),
              (std::vector<double>{0, 1, 0, 0.25, 0.125, 0.75, 0.625, 0, 0, 5, 0, 0.125, 0.5, 0.375, 1, 1, 1,
                                   2, 0, 0, 0,    1,     1,    0,     2, 7, 0, 0, 0,     1,   0.5,   0}));
    EXPECT_EQ(replica.values(0)[5 * 40 + 10], 250);
  }
  put({box_record({0, 0, 0.5})});
  EXPECT_THAT(refusal(text(1, "")), AllOf(HasSubstr("record 0"), HasSubstr("6 numbers for each object")));
  put({box_record({})});
  EXPECT_THAT(refusal(text(1, "")), HasSubstr("read by Data"));
  put({box_record({0.5, 0, 0.5, 0.5, 1, 1})});
  EXPECT_THAT(refusal(text(1, "")), HasSubstr("object 0 has the class 0.5"));
  put({box_record({0, 0, NAN, 0.5, 1, 1})});
  EXPECT_THAT(refusal(text(1, "")), HasSubstr("finite numbers"));
}

}  // namespace
}  // namespace banyan::data
