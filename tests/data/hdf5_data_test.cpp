// The HDF5Data and HDF5Output layers.

#include <algorithm>
#include <set>

#include "banyan/data/hdf5_source.hpp"
#include "banyan/data/input_rates.hpp"
#include "banyan/net/net.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_maker.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

#ifdef BANYAN_WITH_HDF5

class Hdf5Data : public FolderTest {
 protected:
  /// Files of these numbers of rows; row i of all: `data` (2 x 3) holds 10 i ... 10 i + 5, `label` holds i.
  void make(const std::vector<hsize_t>& rows, hid_t type = H5T_NATIVE_FLOAT, hsize_t chunk = 0) {
    std::string list;
    double row = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::string name = path("part" + std::to_string(k) + ".h5");
      list += name + (k % 2 == 0 ? "\n" : " ");
      Hdf5Maker file(name);
      std::vector<double> data;
      for (hsize_t i = 0; i < rows[k]; ++i)
        for (int j = 0; j < 6; ++j) data.push_back(10 * (row + static_cast<double>(i)) + j);
      file.add("data", {rows[k], 2, 3}, data, type, chunk);
      file.add("label", {rows[k]}, counted(rows[k], row), H5T_STD_I32BE);
      row += static_cast<double>(rows[k]);
    }
    write_file(path("list"), list);
  }
  std::string text(int batch, const std::string& more = "",
                   const std::string& tops = "top: 'data' top: 'label'") {
    return "name: 'rows' type: 'HDF5Data' " + tops + " hdf5_data_param { source: '" + path("list") +
           "' batch_size: " + std::to_string(batch) + " " + more + " }";
  }
  std::string refusal(const std::string& tops = "top: 'data' top: 'label'") {
    return bad_input_of([&] { Replica(text(2, "", tops)); });
  }
};

TEST_F(Hdf5Data, BatchesRunAcrossFilesAndWrap) {
  make({3, 0, 2});
  Replica replica(text(4));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{4, 2, 3}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{4}));
  EXPECT_EQ(replica.step(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(replica.values(0)[6 * 3 + 5], 35);
  EXPECT_EQ(replica.step(), (std::vector<int>{4, 0, 1, 2}));
  EXPECT_EQ(replica.source().consumed(), 8u);
}

TEST_F(Hdf5Data, EveryTypeOfNumberIsConverted) {
  for (const hid_t type : {H5T_IEEE_F32BE, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT8, H5T_NATIVE_UINT8,
                           H5T_STD_U16BE, H5T_NATIVE_INT64}) {
    make({4}, type);
    Replica replica(text(4));
    replica.step();
    EXPECT_EQ(replica.values(0)[3 * 6 + 1], 31);
  }
}

/// 2^24 + 1 and 1/3 have no f32.
TEST_F(Hdf5Data, DoublesArriveAsTheyAre) {
  Hdf5Maker(path("a.h5")).add("x", {2}, {16777217, 1.0 / 3}, H5T_NATIVE_DOUBLE);
  write_file(path("list"), path("a.h5"));
  Replica replica(text(2, "", "top: 'x'"), 0, 1, Phase::train, true, DType::f64);
  replica.step();
  EXPECT_EQ(replica.values(0), (std::vector<double>{16777217, 1.0 / 3}));
}

std::vector<std::vector<int>> labels_of(const std::string& text, int devices, int steps,
                                        std::uint64_t from = 0) {
  std::vector<std::vector<int>> batches(static_cast<std::size_t>(steps));
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    if (from > 0) replica.source().seek(from);
    for (std::vector<int>& batch : batches) {
      const std::vector<int> part = replica.step();
      batch.resize(part.size() * static_cast<std::size_t>(devices));
      for (std::size_t i = 0; i < part.size(); ++i)
        batch[i * static_cast<std::size_t>(devices) + static_cast<std::size_t>(rank)] = part[i];
    }
  }
  return batches;
}

TEST_F(Hdf5Data, SeveralDevicesTogetherAreOne) {
  make({5, 4, 7});
  for (const char* shuffle : {"", "shuffle: true"})
    for (const int devices : {2, 3})
      EXPECT_EQ(labels_of(text(2, shuffle), devices, 9), labels_of(text(2 * devices, shuffle), 1, 9))
          << devices;
}

TEST_F(Hdf5Data, ContinuesFromAnyPosition) {
  make({5, 4, 7});
  const auto all = labels_of(text(3, "shuffle: true"), 1, 12);
  const std::vector<std::vector<int>> rest(all.begin() + 7, all.end());
  EXPECT_EQ(labels_of(text(3, "shuffle: true"), 1, 5, 21), rest);
}

/// As in Caffe: files in a new order, the rows of each in a new order, one file after the other.
TEST_F(Hdf5Data, ShuffleKeepsTheRowsOfAFileTogether) {
  make({5, 4, 7}, H5T_NATIVE_FLOAT, 2);
  std::set<std::vector<int>> orders, files;
  for (const std::vector<int>& epoch : labels_of(text(16, "shuffle: true"), 1, 20)) {
    std::vector<int> sorted = epoch, of_file;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < 16; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
    for (const int row : epoch) {
      const int file = row < 5 ? 0 : row < 9 ? 1 : 2;
      if (of_file.empty() || of_file.back() != file) of_file.push_back(file);
    }
    EXPECT_EQ(of_file.size(), 3u);
    orders.insert(epoch);
    files.insert(of_file);
  }
  EXPECT_EQ(orders.size(), 20u);  // of 3! * 5! * 4! * 7!
  EXPECT_GE(files.size(), 4u);    // of 6, in 20 epochs
}

TEST_F(Hdf5Data, ChunksAndCompressionMakeNoDifference) {
  make({64}, H5T_NATIVE_FLOAT, 5);
  Replica replica(text(64));
  replica.step();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(replica.values(0)[static_cast<std::size_t>(i) * 6 + 4], 10 * i + 4);
}

/// Files that are held in memory and those that are too large for it, stored in any way.
TEST_F(Hdf5Data, RowsFromMemoryAreThoseOfTheFile) {
  for (const hsize_t chunk : {0, 2}) {
    make({5, 4, 7}, H5T_NATIVE_INT16, chunk);
    const std::vector<std::string> datasets = {"label", "data"};
    for (const std::uint64_t largest : {0, 5 * 7 * 8, 1 << 20}) {  // bytes: none, the shorter files, all
      const auto source = open_hdf5_list(path("list"), datasets, largest);
      const auto reader = source->reader();
      Record record;
      for (const int row : {0, 15, 4, 5, 9, 8, 1, 12}) {
        read_record(*reader, static_cast<std::uint64_t>(row), record);
        std::vector<double> expected = counted(6, 10 * row);
        expected.insert(expected.begin(), row);
        EXPECT_EQ(record.numbers, expected) << largest;
        EXPECT_EQ(record.stored.size(), 7 * sizeof(double));
      }
    }
  }
}

TEST_F(Hdf5Data, CanBeMeasured) {
  make({6});
  Replica replica(text(3));
  const auto device = make_cpu_device(0);
  const InputRates rates = measure_input(replica.source().pipeline(), *device, 4, [] { return false; });
  EXPECT_EQ(rates.items, 12u);
  EXPECT_EQ(rates.bytes, 12u * 7 * sizeof(double));
}

TEST_F(Hdf5Data, RefusesWhatDoesNotFit) {
  make({3, 2});
  EXPECT_THAT(refusal("top: 'dat'"), AllOf(HasSubstr("part0.h5"), HasSubstr("dataset \"dat\": is missing"),
                                           HasSubstr("did you mean \"data\"")));
  {
    Hdf5Maker file(path("part1.h5"));
    file.add("data", {3, 2, 3}, counted(18));
    file.add("label", {2}, counted(2));
  }
  EXPECT_THAT(refusal(), AllOf(HasSubstr("part1.h5"), HasSubstr("dataset \"label\""),
                               HasSubstr("expected 3 rows"), HasSubstr("found 2")));
  {
    Hdf5Maker file(path("part1.h5"));
    file.add("data", {3, 3, 2}, counted(18));
    file.add("label", {3}, counted(3));
  }
  EXPECT_THAT(refusal(), AllOf(HasSubstr("part1.h5"), HasSubstr("\"data\": expected rows of shape (2, 3)"),
                               HasSubstr("found (3, 2)")));
  {
    Hdf5Maker file(path("part1.h5"));
    file.add_text("data", "words");
  }
  EXPECT_THAT(refusal("top: 'data'"),
              AllOf(HasSubstr("part1.h5"), HasSubstr("expected numbers, found text")));
  {
    Hdf5Maker file(path("part1.h5"));
    file.group("data");
  }
  EXPECT_THAT(refusal("top: 'data'"), HasSubstr("expected a dataset, found a group"));
  {
    Hdf5Maker file(path("part1.h5"));
    file.add("data", {}, {1});
  }
  EXPECT_THAT(refusal("top: 'data'"), HasSubstr("expected rows along its first axis"));
  {
    Hdf5Maker file(path("part1.h5"));
    file.add("data", {1u << 30, 2, 3}, {}, H5T_NATIVE_FLOAT, 1);
  }
  EXPECT_THAT(refusal("top: 'data'"), HasSubstr("only 0 bytes of values are stored"));
}

TEST_F(Hdf5Data, RefusesBrokenFilesAndLists) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("layer \"rows\""), HasSubstr("list")));  // no list
  write_file(path("list"), " \n");
  EXPECT_THAT(refusal(), HasSubstr("names no HDF5 files"));
  write_file(path("list"), path("none.h5"));
  EXPECT_THAT(refusal(), HasSubstr("none.h5"));
  write_file(path("none.h5"), "this is text");
  EXPECT_THAT(refusal(), HasSubstr("is no HDF5 file"));
  write_file(path("none.h5"), "");
  EXPECT_THAT(refusal(), HasSubstr("is no HDF5 file"));
  make({0});
  EXPECT_THAT(refusal(), HasSubstr("hold no rows"));
  make({300});
  std::filesystem::resize_file(path("part0.h5"), std::filesystem::file_size(path("part0.h5")) / 2);
  EXPECT_THAT(refusal(), HasSubstr("part0.h5"));
  make({3});
  EXPECT_THAT(bad_input_of([&] { Replica(text(2) + " transform_param { scale: 2 }"); }),
              HasSubstr("transform_param"));
  EXPECT_THAT(bad_input_of([&] { Replica(text(0)); }), HasSubstr("hdf5_data_param.batch_size"));
}

/// Damaged chunks come out at the row that they hold, with its number.
TEST_F(Hdf5Data, ADamagedRowIsNamed) {
  const auto damage_last_chunk = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::size_t chunk = bytes.rfind("\x78\x9c");  // how a deflated chunk of level 6 begins
    ASSERT_NE(chunk, std::string::npos);
    for (std::size_t i = chunk + 2; i < chunk + 40; ++i) bytes[i] = '\x55';
    write_file(file, bytes);
  };
  make({64}, H5T_NATIVE_FLOAT, 64);
  damage_last_chunk(path("part0.h5"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("row 0"), HasSubstr("part0.h5")));
  // One of two chunks: the rows of the other are read.
  make({64}, H5T_NATIVE_FLOAT, 32);
  damage_last_chunk(path("part0.h5"));
  const auto reader = open_hdf5_list(path("list"), {"data", "label"})->reader();
  int damaged = 0;
  for (const int row : {0, 31, 32, 63}) {
    Record record;
    try {
      read_record(*reader, static_cast<std::uint64_t>(row), record);
      EXPECT_EQ(record.numbers[6], row);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(cat("row ", row, " ")));
      ++damaged;
    }
  }
  EXPECT_EQ(damaged, 2);
}

/// Whatever a passing run appends is read back from the file.
class Hdf5Output : public Hdf5Data {
 protected:
  std::string net(const std::string& output) {
    return "layer { " + text(2) +
           " } layer { name: 'out' type: 'HDF5Output' bottom: 'data' bottom: 'label' " +
           "hdf5_output_param { file_name: '" + output + "' } }";
  }
};

TEST_F(Hdf5Output, HoldsWhatEveryPassHad) {
  make({3});
  const auto device = make_cpu_device(0);
  Context context(*device);
  Activity activity("cpu:0");
  Pass pass;
  pass.context = &context;
  write_file(path("out.h5"), "replaced");
  {
    Net made(io::parse_net_text(net(path("out.h5")), "test"), NetOptions(), context, activity);
    for (int i = 0; i < 2; ++i) made.forward(pass);
    // On disk while the run goes on.
    std::filesystem::copy_file(path("out.h5"), path("copy.h5"));
    std::vector<hsize_t> shape;
    hdf5_values(path("copy.h5"), "data", &shape);
    EXPECT_EQ(shape, (std::vector<hsize_t>{4, 2, 3}));
    made.forward(pass);
  }
  EXPECT_EQ(hdf5_values(path("out.h5"), "label"), (std::vector<double>{0, 1, 2, 0, 1, 2}));
  const std::vector<double> data = hdf5_values(path("out.h5"), "data");
  ASSERT_EQ(data.size(), 36u);
  for (std::size_t i = 0; i < 36; ++i)
    EXPECT_EQ(data[i], 10 * (static_cast<double>(i / 6 % 3)) + static_cast<double>(i % 6));
}

TEST_F(Hdf5Output, RefusesSeveralDevicesAndNoName) {
  LayerOptions options;
  options.devices = 2;
  caffe::LayerParameter layer;
  io::parse_text("name: 'out' type: 'HDF5Output' hdf5_output_param { file_name: 'x.h5' }", "test", layer);
  EXPECT_THAT(bad_input_of([&] { make_layer(layer, options)->read_settings(); }),
              HasSubstr("one device only"));
  layer.clear_hdf5_output_param();
  EXPECT_THAT(bad_input_of([&] { make_layer(layer, LayerOptions())->read_settings(); }),
              HasSubstr("file_name"));
}

#else

TEST(Hdf5Data, IsRefusedInABuildWithoutIt) {
  EXPECT_THAT(bad_input_of([] { open_hdf5_list("list", {"data"}); }), HasSubstr("libhdf5-dev"));
}

#endif

}  // namespace
}  // namespace banyan::data
