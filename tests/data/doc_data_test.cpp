// DocData (ctensmeyer's Caffe): images of documents, with numbers that are known of them.

#include <map>
#include <set>

#include "banyan/data/leveldb.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Pixels c, y, x are 100 c + 10 y + x.
Image page_of(int channels, int height, int width) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(100 * c + 10 * y + x));
  return image;
}

/// With pixels, or as a file of type `encoding`.
caffe::DocumentDatum document(const Image& image, const std::string& encoding = "none") {
  caffe::DocumentDatum datum;
  caffe::DocumentImage& stored = *datum.mutable_image();
  stored.set_channels(image.channels);
  stored.set_height(image.height);
  stored.set_width(image.width);
  if (encoding != "none") {
    const auto file = encode_image(image, encoding);
    stored.set_encoding(encoding);
    stored.set_data(file.data(), file.size());
    return datum;
  }
  for (int c = 0; c < image.channels; ++c)
    for (int i = 0; i < image.height * image.width; ++i)
      stored.mutable_data()->push_back(
          static_cast<char>(image.pixels[static_cast<std::size_t>(i * image.channels + c)]));
  return datum;
}

class DocData : public FolderTest {
 protected:
  void put(const std::string& name, const std::vector<caffe::DocumentDatum>& records) {
    LmdbWriter writer(path(name), true);
    for (std::size_t i = 0; i < records.size(); ++i) writer.put(key_of(i), records[i].SerializeAsString());
    writer.close();
  }
  /// Record i is of collection first + i.
  void put_numbered(const std::string& name, int records, int first = 0) {
    std::vector<caffe::DocumentDatum> all(static_cast<std::size_t>(records), document(page_of(1, 4, 6)));
    for (int i = 0; i < records; ++i) all[static_cast<std::size_t>(i)].set_collection(first + i);
    put(name, all);
  }
  /// Of database `db`, unless `documents` names others.
  std::string text(const std::string& documents, const std::string& transforms = "",
                   const std::string& tops = "top: 'data' ") const {
    const bool named = documents.find("sources") != std::string::npos;
    return "name: 'd' type: 'DocData' " + tops + "doc_data_param { " +
           (named ? "" : "sources: '" + path("db") + "' ") + documents + " } image_transform_param { " +
           transforms + " }";
  }
  /// The same with the number of the collection.
  std::string numbered(const std::string& documents, const std::string& transforms = "") const {
    return text(documents + " label_names: 'collection'", transforms, "top: 'data' top: 'label' ");
  }
  std::string both(const std::string& documents) const {
    return "sources: '" + path("a") + "' sources: '" + path("b") + "' " + documents;
  }
  /// The first image of one channel, made by the transformations of page_of(1, 4, 6).
  std::vector<double> made_by(const std::string& transforms) {
    put("db", {document(page_of(1, 4, 6))});
    Replica replica(text("batch_size: 1", transforms));
    replica.step();
    shape_ = replica.outputs[0]->shape;
    return replica.values(0);
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }

  Shape shape_;
};

TEST_F(DocData, GivesRowsAndColumnsOfPixelsAndOfFiles) {
  put("db", {document(page_of(3, 2, 5)), document(page_of(3, 2, 5), "png")});
  Replica replica(text("batch_size: 2 backend: LMDB"));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 3, 2, 5}));
  replica.step();
  std::vector<double> expected;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 5; ++x) expected.push_back(100 * c + 10 * y + x);
  EXPECT_EQ(replica.values(0), expected);
  Replica last(text("batch_size: 2"), 0, 1, Phase::train, true, DType::f64);
  last.step();
  EXPECT_EQ(last.outputs[0]->data.layout(), Layout::channels_last);
  EXPECT_EQ(last.values(0), expected);
}

TEST_F(DocData, FilesAreInColourOrGray) {
  const Image colours = gradient_image(3, 16, 24);
  caffe::DocumentDatum as_gray = document(colours, "png");
  as_gray.mutable_image()->set_channels(1);
  put("db", {document(colours, "jpg"), as_gray, document(page_of(1, 2, 3), "png")});
  Replica replica(text("batch_size: 1"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 16, 24}));
  EXPECT_NEAR(replica.values(0)[2 * 16 * 24], 140, 6);  // red comes last
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 1, 16, 24}));
  EXPECT_NEAR(replica.values(0)[0], 0.114 * 20 + 0.587 * 80 + 0.299 * 140, 1);
  replica.step();
  EXPECT_EQ(replica.values(0), (std::vector<double>{0, 1, 2, 10, 11, 12}));
}

TEST_F(DocData, GivesTheNumbersThatAreNamed) {
  caffe::DocumentDatum known = document(page_of(1, 2, 2)), unknown = known;
  known.set_collection(3);
  known.set_decade(192.5F);
  known.set_is_textual_document(1);
  known.set_dbid(9);
  known.set_country_str("US");
  put("db", {known, unknown});
  const std::string names =
      "label_names: 'decade' label_names: 'is_textual' label_names: 'collection' label_names: 'dbid' ";
  const std::string tops = "top: 'data' top: 'decade' top: 'text' top: 'collection' top: 'dbid' ";
  Replica replica(text("batch_size: 2 " + names, "", tops));
  replica.step();
  EXPECT_EQ(replica.outputs[1]->shape, Shape{2});
  EXPECT_EQ(replica.values(1), (std::vector<double>{192.5, -1}));
  EXPECT_EQ(replica.values(2), (std::vector<double>{1, -1}));
  EXPECT_EQ(replica.values(3), (std::vector<double>{3, -1}));
  EXPECT_EQ(replica.values(4), (std::vector<double>{9, -1}));
  Replica other(text("batch_size: 2 missing_value: 7 " + names, "", tops));
  other.step();
  EXPECT_EQ(other.values(3), (std::vector<double>{3, 7}));
}

TEST_F(DocData, LinesMultiplyThenAdd) {
  EXPECT_EQ(made_by("params { linear_params { scale: 0.5 shift: -3 } }")[7], 0.5 * 11 - 3);
  EXPECT_EQ(made_by("params { linear_params { scale: 0.5 shift: -3 } } params { linear_params { scale: 4 "
                    "shift: 1 } }")[7],
            4 * (0.5 * 11 - 3) + 1);
  put("db", {document(page_of(2, 1, 2))});
  Replica channels(text("batch_size: 1", "params { linear_params { scale: 1 scale: 2 shift: 8 } }"));
  channels.step();
  EXPECT_EQ(channels.values(0), (std::vector<double>{8, 9, 208, 210}));
}

TEST_F(DocData, CropsNeedNotBeSquare) {
  const auto crop = [&](const std::string& location, const std::string& lengths = "width: 3 height: 2") {
    return made_by("params { crop_params { " + lengths + " location: " + location + " } }");
  };
  EXPECT_EQ(crop("CENTER"), (std::vector<double>{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(shape_, (Shape{1, 1, 2, 3}));
  EXPECT_EQ(crop("UL_CORNER")[0], 0);
  EXPECT_EQ(crop("UR_CORNER")[0], 3);
  EXPECT_EQ(crop("BL_CORNER")[0], 20);
  EXPECT_EQ(crop("BR_CORNER")[0], 23);
  EXPECT_EQ(crop("CENTER", "width_perc: 0.34 height_perc: 0.7"), (std::vector<double>{12, 13, 22, 23}));
  crop("CENTER", "size_perc: 0.5");
  EXPECT_EQ(shape_, (Shape{1, 1, 2, 3}));
}

TEST_F(DocData, PlacesAreDrawnForEachImage) {
  put("db", {document(page_of(1, 4, 6))});
  const auto places = [&](const std::string& location) {
    Replica replica(text("batch_size: 100", "params { crop_params { size: 2 location: " + location + " } }"));
    std::map<double, int> found;
    for (int k = 0; k < 3; ++k) {
      replica.step();
      const std::vector<double> values = replica.values(0);
      for (std::size_t i = 0; i < values.size(); i += 4) {
        ++found[values[i]];
        EXPECT_EQ(values[i + 3], values[i] + 11);
      }
    }
    return found;
  };
  const std::map<double, int> any = places("RANDOM");
  EXPECT_EQ(any.size(), 3u * 5);
  // A fifteenth of 300, give or take 4 times the root of 300 * 14 / 225.
  for (const auto& [place, count] : any) EXPECT_NEAR(count, 20, 17.3) << place;
  const std::map<double, int> corners = places("RAND_CORNER");
  EXPECT_EQ(corners.size(), 4u);
  for (const double corner : {0, 4, 20, 24}) EXPECT_NEAR(corners.at(corner), 75, 30) << corner;
}

TEST_F(DocData, ReflectsAsTheBranchDoes) {
  const std::vector<double> turned = made_by("params { reflect_params { horz_reflect_prob: 1 } }");
  EXPECT_EQ(turned[0], 30);
  EXPECT_EQ(turned[1], 31);
  const std::vector<double> mirrored = made_by("params { reflect_params { vert_reflect_prob: 1 } }");
  EXPECT_EQ(mirrored[0], 5);
  EXPECT_EQ(mirrored[6], 15);
  const std::vector<double> cut = made_by(
      "params { reflect_params { horz_reflect_prob: 1 vert_reflect_prob: 1 } } params { crop_params { size: "
      "2 "
      "location: UL_CORNER } }");
  EXPECT_EQ(cut, (std::vector<double>{35, 34, 25, 24}));
  Replica replica(text("batch_size: 200", "params { reflect_params { vert_reflect_prob: 0.25 } }"));
  replica.step();
  int seen = 0;
  for (std::size_t i = 0; i < 200; ++i) seen += replica.values(0)[24 * i] == 5 ? 1 : 0;
  EXPECT_NEAR(seen, 50, 25);  // 4 times the root of 200 * 3 / 16
}

TEST_F(DocData, Resizes) {
  const auto resize = [&](const std::string& settings) {
    return made_by("params { resize_params { " + settings + " } }");
  };
  EXPECT_EQ(resize("width: 3 height: 2 interpolation: INTER_AREA"),
            (std::vector<double>{6, 8, 10, 26, 28, 30}));  // 5.5, 7.5 ... rounded
  EXPECT_EQ(shape_, (Shape{1, 1, 2, 3}));
  EXPECT_EQ(resize("size_perc: 2 interpolation: INTER_NEAREST")[13], 0);
  EXPECT_EQ(shape_, (Shape{1, 1, 8, 12}));
  resize("width_perc: 0.5 height_perc: 2 interpolation: INTER_CUBIC");
  EXPECT_EQ(shape_, (Shape{1, 1, 8, 3}));
  const std::string line = "params { linear_params { scale: 0.5 shift: 3 } } ";
  const std::string larger = "params { resize_params { size: 7 interpolation: INTER_LANCZOS4 } } ";
  EXPECT_EQ(made_by(line + larger), made_by(larger + line));
}

TEST_F(DocData, LengthsAreDrawnForABatch) {
  put_numbered("db", 3);
  Replica replica(text("batch_size: 3", "params { resize_params { width: 4 width: 6 height: 5 } }"));
  std::map<std::int64_t, int> widths;
  for (int k = 0; k < 300; ++k) {
    replica.step();
    const Shape& shape = replica.outputs[0]->shape;
    ASSERT_EQ(shape, (Shape{3, 1, 5, shape[3]}));
    ++widths[shape[3]];
  }
  EXPECT_EQ(widths.size(), 3u);
  for (const std::int64_t width : {4, 5, 6}) EXPECT_NEAR(widths[width], 100, 33) << width;
}

TEST_F(DocData, ABlockAppliesOneOfItsTransformations) {
  put_numbered("db", 2);
  const std::string block =
      "params { resize_params { size: 9 } resize_params { size: 8 } crop_params { size: 2 } ";
  const auto heights = [&](const std::string& transforms) {
    Replica replica(text("batch_size: 2", transforms));
    std::map<std::int64_t, int> found;
    for (int k = 0; k < 240; ++k) {
      replica.step();
      ++found[replica.outputs[0]->shape[2]];
    }
    return found;
  };
  std::map<std::int64_t, int> even = heights(block + "}");
  for (const std::int64_t height : {9, 8, 2}) EXPECT_NEAR(even[height], 80, 30) << height;
  std::map<std::int64_t, int> weighted =
      heights(block + "resize_prob_weights: 3 resize_prob_weights: 0 crop_prob_weights: 1 }");
  EXPECT_NEAR(weighted[9], 180, 27);
  EXPECT_EQ(weighted[9] + weighted[2], 240);
}

TEST_F(DocData, EachBatchIsOfOneDatabase) {
  put_numbered("a", 5);
  put_numbered("b", 7, 10);
  const auto share_of_b = [&](const std::string& more) {
    Replica replica(numbered(both("batch_size: 3 " + more)));
    int next_a = 0, next_b = 0, batches_b = 0;
    for (int k = 0; k < 240; ++k) {
      const std::vector<int> labels = replica.step();
      const bool of_b = labels[0] >= 10;
      batches_b += of_b ? 1 : 0;
      for (const int label : labels) EXPECT_EQ(label, of_b ? 10 + next_b++ % 7 : next_a++ % 5);
    }
    return batches_b;
  };
  EXPECT_NEAR(share_of_b(""), 120, 31);
  EXPECT_NEAR(share_of_b("weights: 3 weights: 1"), 60, 27);
  EXPECT_NEAR(share_of_b("weights_by_size: true"), 140, 31);
  EXPECT_EQ(share_of_b("weights: 0 weights: 2"), 240);
  // An epoch has as many records as both.
  EXPECT_EQ(Replica(numbered(both("batch_size: 3"))).source().pipeline().source->size(), 12u);
}

TEST_F(DocData, MayBeginAtAnyRecord) {
  put_numbered("a", 50);
  put_numbered("b", 50, 100);
  const auto begins = [&](const std::string& more) {
    Replica replica(numbered(both("batch_size: 1 " + more)));
    std::map<bool, int> first;
    for (int k = 0; k < 20; ++k) {
      const int label = replica.step()[0];
      first.emplace(label >= 100, label % 100);
    }
    return first;
  };
  EXPECT_EQ(begins(""), (std::map<bool, int>{{false, 0}, {true, 0}}));
  const std::map<bool, int> skipped = begins("rand_skip: 40");
  EXPECT_TRUE(skipped.at(false) < 40 && skipped.at(true) < 40);
  EXPECT_NE(skipped.at(false), skipped.at(true));
  EXPECT_EQ(begins("rand_skip: 40"), skipped);
}

constexpr const char* kAllKinds =
    "params { resize_params { size_perc: 1 size_perc: 1.5 } crop_params { width: 3 width: 5 height: 3 } } "
    "params { reflect_params { horz_reflect_prob: 0.5 vert_reflect_prob: 0.5 } } "
    "params { linear_params { scale: 0.5 shift: 1 } crop_params { size: 2 } }";

/// A step's shape and values.
struct DocumentStep {
  Shape shape;
  std::vector<double> pixels, labels;
  bool operator==(const DocumentStep&) const = default;
};
DocumentStep document_step(Replica& replica) {
  replica.step();
  return {replica.outputs[0]->shape, replica.values(0), replica.values(1)};
}

TEST_F(DocData, SeveralDevicesTogetherAreOne) {
  put_numbered("a", 5);
  put_numbered("b", 7, 10);
  const auto settings = [&](int batch) {
    return numbered(
        both("weights: 1 weights: 2 rand_skip: 3 threads: 2 batch_size: " + std::to_string(batch)),
        kAllKinds);
  };
  Replica whole(settings(6));
  std::vector<DocumentStep> of_one;
  std::set<std::string> shapes;
  for (int k = 0; k < 10; ++k) {
    of_one.push_back(document_step(whole));
    shapes.insert(of_one.back().shape.to_string());
  }
  EXPECT_GT(shapes.size(), 2u);
  for (const std::size_t devices : {2, 3})
    for (std::size_t rank = 0; rank < devices; ++rank) {
      Replica part(settings(static_cast<int>(6 / devices)), static_cast<int>(rank),
                   static_cast<int>(devices));
      for (const DocumentStep& one : of_one) {
        const DocumentStep found = document_step(part);
        const auto each = static_cast<std::size_t>(one.shape.count(1));
        ASSERT_EQ(found.shape.count(1), one.shape.count(1));
        for (std::size_t i = 0; i < 6 / devices; ++i) {
          ASSERT_EQ(found.labels[i], one.labels[i * devices + rank]);
          for (std::size_t e = 0; e < each; ++e)
            ASSERT_EQ(found.pixels[i * each + e], one.pixels[(i * devices + rank) * each + e]);
        }
      }
    }
  Replica resumed(settings(6));
  resumed.source().seek(24);
  for (std::size_t k = 4; k < 10; ++k) EXPECT_EQ(document_step(resumed), of_one[k]);
}

TEST_F(DocData, TestBatchesAreTheSameOnAnyNumberOfDevices) {
  put_numbered("a", 5);
  put_numbered("b", 7, 10);
  const std::string settings = numbered(both("batch_size: 3"), kAllKinds);
  Replica whole(settings, 0, 1, Phase::test);
  std::vector<DocumentStep> of_one;
  whole.source().begin_test_pass(6);
  for (int k = 0; k < 6; ++k) of_one.push_back(document_step(whole));
  for (int rank = 0; rank < 2; ++rank) {
    Replica part(settings, rank, 2, Phase::test);
    part.source().begin_test_pass(6);
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(document_step(part), of_one[static_cast<std::size_t>(2 * k + rank)]);
  }
}

/// As after a run with batches of another size.
TEST_F(DocData, BatchesMayBeginAnywhere) {
  put_numbered("a", 5);
  put_numbered("b", 7, 10);
  Replica replica(numbered(both("batch_size: 4"), kAllKinds));
  replica.source().seek(7);
  for (int k = 0; k < 20; ++k) {
    const std::vector<int> labels = replica.step();
    for (const int label : labels) EXPECT_EQ(label >= 10, labels[0] >= 10);
  }
  put_numbered("db", 5);
  Replica single(numbered("batch_size: 2"));
  single.source().seek(3);
  EXPECT_EQ(single.step(), (std::vector<int>{3, 4}));
}

TEST_F(DocData, SeedsOfTransformationsMayDiffer) {
  put_numbered("db", 5);
  const auto crops = [&](const std::string& more) {
    Replica replica(numbered("batch_size: 8", "params { crop_params { size: 2 } } " + more));
    return document_step(replica);
  };
  EXPECT_EQ(crops(""), crops(""));
  EXPECT_EQ(crops("rng_seed: 5"), crops("rng_seed: 5"));
  EXPECT_FALSE(crops("rng_seed: 5") == crops(""));
  EXPECT_EQ(crops("rng_seed: 5").labels, crops("").labels);
}

TEST_F(DocData, ReadsLevelDb) {
  if (!has_leveldb()) GTEST_SKIP();
  const auto writer = make_leveldb_writer(path("b"), false);
  caffe::DocumentDatum datum = document(page_of(1, 4, 6));
  datum.set_collection(1);
  writer->put("0", datum.SerializeAsString());
  writer->close();
  put_numbered("a", 1);
  Replica replica(numbered(both("batch_size: 1")));
  std::set<int> found;
  for (int k = 0; k < 20; ++k) found.insert(replica.step()[0]);
  EXPECT_EQ(found, (std::set<int>{0, 1}));
  EXPECT_THAT(refusal(numbered(both("batch_size: 1 backend: LMDB"))), HasSubstr("holds a LevelDB"));
}

TEST_F(DocData, RefusesSettingsThatDoNotFit) {
  put_numbered("db", 2);
  EXPECT_THAT(refusal("name: 'd' type: 'DocData' top: 'a' doc_data_param { batch_size: 1 }"),
              HasSubstr("doc_data_param.sources is missing"));
  EXPECT_THAT(refusal(text("")), HasSubstr("doc_data_param.batch_size must be positive"));
  EXPECT_THAT(refusal(text("batch_size: 1 label_names: 'collection'")), HasSubstr("has 1 name for 1 top"));
  EXPECT_THAT(refusal(text("batch_size: 1", "", "top: 'a' top: 'b' ")), HasSubstr("has 0 names for 2 tops"));
  EXPECT_THAT(refusal(text("batch_size: 1 label_names: 'colour'", "", "top: 'a' top: 'b' ")),
              AllOf(HasSubstr("\"colour\", which is no number of a DocumentDatum"), HasSubstr("collection")));
  EXPECT_THAT(refusal(text("batch_size: 1 label_names: 'country_str'", "", "top: 'a' top: 'b' ")),
              HasSubstr("which is no number"));
  EXPECT_THAT(refusal(text("batch_size: 1 weights: 1 weights: 2")),
              HasSubstr("doc_data_param.weights has 2 numbers; expected none, or 1"));
  EXPECT_THAT(refusal(text("batch_size: 1 weights: -1")), HasSubstr("weights must not be negative"));
  EXPECT_THAT(refusal(text("batch_size: 1 weights: 0")), HasSubstr("weights must not all be 0"));
  EXPECT_THAT(refusal(text("batch_size: 1") + " transform_param { crop_size: 2 }"),
              HasSubstr("transform_param has no effect in DocData"));
  EXPECT_THAT(refusal(text("batch_size: 1 sources: '" + path("none") + "'")), HasSubstr("no such folder"));
  EXPECT_THAT(refusal(text("batch_size: 1 in_order: true")),
              AllOf(HasSubstr("\"in_order\""), HasSubstr("later versions of ctensmeyer's Caffe")));
  EXPECT_THAT(refusal(text("batch_size: 1", "params { rotate_params { max_angle: 5 } }")),
              AllOf(HasSubstr("\"rotate_params\""), HasSubstr("later versions of ctensmeyer's Caffe")));
}

TEST_F(DocData, RefusesTransformationsThatDoNotFit) {
  put_numbered("db", 2);
  const auto block = [&](const std::string& transforms) {
    return refusal(text("batch_size: 1", "params { reflect_params { } } params { " + transforms + " }"));
  };
  EXPECT_THAT(block(""), HasSubstr("image_transform_param.params, block 2: has no transformation"));
  EXPECT_THAT(block("crop_params { }"), HasSubstr("crop_params: needs one of: size; width and height"));
  EXPECT_THAT(block("crop_params { size: 2 width: 2 }"), HasSubstr("needs one of"));
  EXPECT_THAT(block("resize_params { width_perc: 2 }"), HasSubstr("needs both a width and a height"));
  for (const char* size : {"size: 3 size: 2", "size: 0", "size: 1 size: 2 size: 3", "size: 40000"})
    EXPECT_THAT(block(std::string("resize_params { ") + size + " }"),
                HasSubstr("resize_params: size must be one number or two, the smaller one first"));
  EXPECT_THAT(block("crop_params { size_perc: nan }"), HasSubstr("size_perc must be"));
  EXPECT_THAT(block("reflect_params { horz_reflect_prob: 2 }"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(block("linear_params { scale: 2 }"), HasSubstr("linear_params: shift must be given once"));
  EXPECT_THAT(block("crop_params { size: 2 } crop_prob_weights: 1 crop_prob_weights: 1"),
              HasSubstr("crop_prob_weights has 2 numbers; expected none, or 1"));
  EXPECT_THAT(block("linear_params { scale: 2 scale: 3 shift: 1 }"),
              AllOf(HasSubstr("record 0"), HasSubstr("linear_params have 2 numbers")));
  EXPECT_THAT(block("crop_params { size: 5 }"),
              AllOf(HasSubstr("record 0"), HasSubstr("cut 5 x 5 pixels out of an image of 4 x 6")));
  EXPECT_THAT(block("resize_params { size_perc: 0.1 }"), HasSubstr("make an image of 0 x 0 pixels"));
}

TEST_F(DocData, RefusesRecordsThatDoNotFit) {
  const auto of = [&](const std::string& bytes) {
    LmdbWriter writer(path("db"), true);
    writer.put(key_of(0), bytes);
    writer.close();
    return refusal(text("batch_size: 1"));
  };
  EXPECT_THAT(of("\xff\xff"), AllOf(HasSubstr("record 0"), HasSubstr("is not a DocumentDatum")));
  const std::uint8_t pixel = 1;
  EXPECT_THAT(of(raw_datum(1, 1, 1, &pixel, 0)), HasSubstr("no DocumentDatum with an image"));
  caffe::DocumentDatum datum = document(page_of(1, 2, 2));
  datum.mutable_image()->set_width(3);
  EXPECT_THAT(of(datum.SerializeAsString()), HasSubstr("says 1 x 2 x 3 = 6 values, but holds 4"));
  datum.mutable_image()->set_channels(5);
  EXPECT_THAT(of(datum.SerializeAsString()), HasSubstr("expected 1 to 4 channels"));
  datum.mutable_image()->set_encoding("jpg");
  EXPECT_THAT(of(datum.SerializeAsString()), HasSubstr("expected a JPEG, PNG, WebP or BMP image"));
  put("db", {document(page_of(1, 4, 6)), document(page_of(1, 4, 7))});
  EXPECT_THAT(refusal(text("batch_size: 2")),
              AllOf(HasSubstr("record 1"), HasSubstr("the item is 1 x 4 x 7")));
}

}  // namespace
}  // namespace banyan::data
