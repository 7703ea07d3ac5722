// safetensors and npz: files of other programs, files of ours, broken files.
#include "banyan/io/arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "banyan/base/error.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedArray array_of(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> floats,
                    std::vector<double> doubles = {}) {
  NamedArray array;
  array.name = name;
  array.data.shape = std::move(shape);
  array.data.floats = std::move(floats);
  array.data.doubles = std::move(doubles);
  return array;
}

/// All that the formats should keep: several axes, none, no elements, doubles, values without a number.
NamedArrays examples() {
  return {array_of("conv1/0", {2, 3}, {1, -2.5f, 0, 4, 5, std::numeric_limits<float>::infinity()}),
          array_of("scalar", {}, {7}), array_of("empty", {0, 4}, {}),
          array_of("\"quoted\"\n\xc3\xa9", {2}, {}, {0.1, -1e300})};
}

struct Format {
  const char* name;
  NamedArrays (*parse)(std::string_view, const std::string&);
  NamedArrays (*read)(const std::string&);
  void (*write)(const std::string&, const NamedArrays&);
};

class Arrays : public testing::TestWithParam<Format> {
 protected:
  std::string bytes_of_file(const NamedArrays& arrays) {
    GetParam().write(folder_.file("arrays"), arrays);
    std::ostringstream bytes;
    bytes << std::ifstream(folder_.file("arrays"), std::ios::binary).rdbuf();
    return bytes.str();
  }
  TemporaryFolder folder_;
};

void expect_equal(const NamedArrays& found, const NamedArrays& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, expected[i].name);
    EXPECT_EQ(found[i].data.shape, expected[i].data.shape);
    EXPECT_EQ(found[i].data.floats, expected[i].data.floats);
    EXPECT_EQ(found[i].data.doubles, expected[i].data.doubles);
  }
}

TEST_P(Arrays, KeepEverything) {
  const std::string bytes = bytes_of_file(examples());
  expect_equal(GetParam().read(folder_.file("arrays")), examples());
  EXPECT_EQ(bytes_of_file(GetParam().parse(bytes, "again")), bytes);
  expect_equal(GetParam().parse(bytes_of_file({}), "none"), {});
}

TEST_P(Arrays, TruncatedFilesAreRefused) {
  const std::string bytes = bytes_of_file(examples());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    expect_contains(error_of([&] { GetParam().parse(std::string_view(bytes).substr(0, length), "cut"); }),
                    "cut: ");
  EXPECT_FALSE(error_of([&] { GetParam().parse(bytes + "x", "long"); }).empty());
}

/// No byte, whatever it becomes, makes the reader do more than refuse the file. (Sanitizers watch.)
TEST_P(Arrays, DamagedFilesAreRefusedOrRead) {
  const std::string bytes = bytes_of_file(examples());
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const int change : {1, 0x40, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        GetParam().parse(damaged, "damaged");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 0);
}

TEST_P(Arrays, RefusesTwoArraysOfOneName) {
  const NamedArrays twins = {array_of("a", {1}, {1}), array_of("a", {1}, {2})};
  expect_contains(error_of([&] { bytes_of_file(twins); }), "the name \"a\" is taken");
  EXPECT_EQ(folder_.count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, Arrays,
                         testing::Values(Format{"safetensors", parse_safetensors, read_safetensors,
                                                write_safetensors},
                                         Format{"npz", parse_npz, read_npz, write_npz}),
                         [](const auto& info) { return std::string(info.param.name); });

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<char>(std::uint64_t{header.size()} >> shift));
  return bytes + header + data;
}

std::string error_of_safetensors(const std::string& bytes) {
  return error_of([&] { parse_safetensors(bytes, "f"); });
}

TEST(Safetensors, ReadsAllTypes) {
  const NamedArrays arrays =
      parse_safetensors(safetensors(R"({"__metadata__":{"format":"pt"},)"
                                    R"("half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                                    R"("brain":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                                    R"("whole":{"dtype":"I64","shape":[],"data_offsets":[7,15]},)"
                                    R"("bool":{"dtype":"BOOL","shape":[1],"data_offsets":[6,7]}}  )",
                                    std::string("\x00\x3e\x00\xc0"
                                                "\x80\xbf"
                                                "\x01"
                                                "\xff\xff\xff\xff\xff\xff\xff\xff",
                                                15)),
                        "all");
  ASSERT_EQ(arrays.size(), 4u);  // in the order of the data
  EXPECT_THAT(arrays[0].data.floats, ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(arrays[1].data.floats, ElementsAre(-1.0f));
  EXPECT_EQ(arrays[2].name, "bool");
  EXPECT_THAT(arrays[2].data.doubles, ElementsAre(1.0));
  EXPECT_THAT(arrays[3].data.doubles, ElementsAre(-1.0));
  EXPECT_TRUE(arrays[3].data.shape.empty());
}

TEST(Safetensors, RefusesContradictions) {
  const auto entry = [](const std::string& shape, const std::string& offsets, const char* dtype = "F32") {
    return cat(R"({"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, "}");
  };
  const auto refused = [&](const std::string& a, const std::string& b = "") {
    const std::string header = R"({"a":)" + a + (b.empty() ? "" : R"(,"b":)" + b) + "}";
    return error_of_safetensors(safetensors(header, std::string(8, '\0')));
  };
  const std::string four = "[0,4]";
  EXPECT_THAT(refused(entry("[1]", four), entry("[2]", "[0,8]")), HasSubstr("begins at byte 0"));
  EXPECT_THAT(refused(entry("[1]", four), entry("[1]", "[3,7]")), HasSubstr("begins at byte 3"));
  EXPECT_THAT(refused(entry("[1]", "[4,8]")), HasSubstr("begins at byte 4"));
  EXPECT_THAT(refused(entry("[1]", four)), HasSubstr("end at byte 4 of 8"));
  EXPECT_THAT(refused(entry("[3]", "[0,8]")), HasSubstr("the shape (3) of F32 does not fit its 8 bytes"));
  EXPECT_THAT(refused(entry("[2]", "[0,7]")), HasSubstr("does not fit its 7 bytes"));
  EXPECT_THAT(refused(entry("[3]", "[0,12]")), HasSubstr("within the 8 bytes"));
  EXPECT_THAT(refused(entry("[1]", "[4,0]")), HasSubstr("a begin and an end"));
  EXPECT_THAT(refused(entry("[1]", "[0]")), HasSubstr("a begin and an end"));
  EXPECT_THAT(refused(entry("[-2]", "[0,8]")), HasSubstr("shape: expected whole numbers"));
  EXPECT_THAT(refused(entry("[1.5]", "[0,8]")), HasSubstr("shape: expected whole numbers"));
  EXPECT_THAT(refused(entry("[1e30]", "[0,8]")), HasSubstr("shape: expected whole numbers"));
  EXPECT_THAT(refused(entry("[4294967296,4294967298]", "[0,8]")), HasSubstr("does not fit"));
  EXPECT_THAT(refused(entry("2", "[0,8]")), HasSubstr("shape is not a list"));
  EXPECT_THAT(refused(entry("[2]", "[0,8]", "F8_E4M3")), HasSubstr("dtype \"F8_E4M3\" is not supported"));
  EXPECT_THAT(refused(R"({"dtype":"F32","shape":[2]})"), HasSubstr("expected dtype, shape and data_offsets"));
  EXPECT_THAT(refused("3"), HasSubstr("expected dtype, shape and data_offsets"));
  EXPECT_THAT(error_of_safetensors(safetensors("[]", "")), HasSubstr("the header is not JSON"));
  EXPECT_THAT(error_of_safetensors(safetensors("{", "")), HasSubstr("the header is not JSON"));
  EXPECT_THAT(error_of_safetensors(safetensors("{\"a\":" + std::string(1'000'000, '['), "")),
              HasSubstr("the header is not JSON"));
  EXPECT_THAT(error_of_safetensors(std::string(8, '\xff') + "{}"), HasSubstr("does not fit the file of 10"));
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// numpy.savez_compressed (NumPy 2): deflated, with Zip64 fields in the local headers. "fort" is f64 with the
/// first axis fastest, "half" f16, "n" i64 without axes.
const std::string kFromNumpy = from_hex(
    "504b03042d0000000800000021004fe9002affffffffffffffff05001400612e6e707901001000980000000000000055000000"
    "000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e"
    "058a17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b03042d0000000800000021"
    "00e4c80660ffffffffffffffff08001400666f72742e6e707901001000b00000000000000057000000000000009bec17ea1b10"
    "c9c850c650ad9e925a9c5ca46ea5a06e9366a1aea3a09e965f54529498179f5f94920a120f292a4d050a17672416a402b91a46"
    "3a0ac69a3a0ab50ae4032e0614c0e100a13fd8436801289f014a8b380000504b03042d000000080000002100b3c1820cffffff"
    "ffffffffff0800140068616c662e6e707901001000840000000000000048000000000000009bec17ea1b10c9c850c650ad9e92"
    "5a9c5ca46ea5a06e9366a4aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14"
    "002e063b860300504b03042d00000008000000210023b8f06cffffffffffffffff050014006e2e6e7079010010008800000000"
    "00000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f9492"
    "0a12774bcc294e058a17672416a402f91a9a3a0ab50a14012e7606080000504b01022d032d0000000800000021004fe9002a55"
    "00000098000000050000000000000000000000800100000000612e6e7079504b01022d032d000000080000002100e4c8066057"
    "000000b000000008000000000000000000000080018c000000666f72742e6e7079504b01022d032d000000080000002100b3c1"
    "820c480000008400000008000000000000000000000080011d01000068616c662e6e7079504b01022d032d0000000800000021"
    "0023b8f06c460000008800000005000000000000000000000080019f0100006e2e6e7079504b05060000000004000400d20000"
    "001c0200000000");

TEST(Npz, ReadsWhatNumpyWrites) {
  const std::vector<float> six = {0, 1, 2, 3, 4, 5};
  expect_equal(parse_npz(kFromNumpy, "numpy"),
               {array_of("a", {2, 3}, six), array_of("fort", {2, 3}, {}, {0, 1, 2, 3, 4, 5}),
                array_of("half", {2}, {1.5f, -2}), array_of("n", {}, {}, {7})});
}

TEST(Npz, DamagedCompressionIsRefusedOrRead) {
  for (std::size_t at = 0; at < kFromNumpy.size(); ++at) {
    std::string damaged = kFromNumpy;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
    try {
      parse_npz(damaged, "damaged");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    }
  }
}

TEST(Npz, ChecksumsAreChecked) {
  TemporaryFolder folder;
  write_npz(folder.file("a.npz"), {array_of("a", {3}, {1, 2, 3})});
  std::ostringstream file;
  file << std::ifstream(folder.file("a.npz"), std::ios::binary).rdbuf();
  std::string bytes = file.str();
  const std::size_t value = bytes.find(std::string("\0\0\x80\x3f", 4));  // 1.0f
  ASSERT_NE(value, std::string::npos);
  bytes[value] = 1;
  expect_contains(error_of([&] { parse_npz(bytes, "f"); }), "f: member \"a.npy\" is damaged: its checksum");
}

/// A zip of one stored member.
std::string npz_of(const std::string& name, const std::string& contents) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(i < 8 ? value >> 8 * i : 0));
    return text;
  };
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(contents.data()), static_cast<uInt>(contents.size()));
  const std::string common = number(20, 2) + number(0, 8) + number(crc, 4) + number(contents.size(), 4) +
                             number(contents.size(), 4) + number(name.size(), 2) + number(0, 2);
  const std::string local = "PK\3\4" + common + name + contents;
  const std::string central = "PK\1\2" + number(20, 2) + common + number(0, 14) + name;
  return local + central + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) + number(central.size(), 4) +
         number(local.size(), 4) + number(0, 2);
}

std::string npy_of(const std::string& header, const std::string& values) {
  std::string bytes = "\x93NUMPY";
  bytes += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  return bytes + header + values;
}

TEST(Npz, RefusesOtherHeaders) {
  const auto refused = [](const std::string& header, const std::string& name = "a.npy") {
    return error_of([&] { parse_npz(npz_of(name, npy_of(header, std::string(8, '\0'))), "f"); });
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  EXPECT_EQ(parse_npz(npz_of("a.npy", npy_of(good, std::string(8, '\0'))), "f").size(), 1u);
  EXPECT_THAT(refused(good, "a.txt"), HasSubstr("member \"a.txt\" is not an array (.npy)"));
  EXPECT_THAT(refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("the type \">f4\" is not supported"));
  EXPECT_THAT(refused("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"), HasSubstr("\"|O\""));
  EXPECT_THAT(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"),
              HasSubstr("the shape (3) of <f4 does not fit its 8 bytes"));
  const char* const wrong[] = {"",
                               "{}",
                               "{'descr': '<f4', 'fortran_order': False}",
                               "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (2,}",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 'x'}",
                               "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                               "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} more"};
  for (const char* header : wrong)
    EXPECT_THAT(refused(header), HasSubstr("is not one of an array of numbers")) << header;
  EXPECT_THAT(error_of([&] { parse_npz(npz_of("a.npy", "text"), "f"); }), HasSubstr("is not an .npy file"));
}

}  // namespace
}  // namespace banyan::io
