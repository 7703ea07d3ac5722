// The data-set programs, run as a user runs them.
#include <sys/wait.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>

#include "banyan/data/digits.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "data/data_test_tools.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {
namespace {

using testing::HasSubstr;

struct Result {
  int code = -1;
  std::string output;  // both streams
};

Result run(const std::string& command) {
  Result result;
  std::FILE* pipe = popen((std::string(BANYAN_BIN) + "/" + command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    result.output.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

class Tools : public FolderTest {
 protected:
  void expect_bad_input(const std::string& command, const std::string& message) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 2) << command << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
  }
};

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string idx_images(std::uint32_t count, std::uint32_t magic = 2051) {
  std::string bytes = big_endian(magic) + big_endian(count) + big_endian(2) + big_endian(3);
  for (std::uint32_t i = 0; i < count * 6; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}
std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian(2049) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % 10));
  return bytes;
}

void write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

TEST_F(Tools, EveryProgramExplainsItself) {
  for (const std::string tool : {"convert_mnist", "convert_imageset", "compute_image_mean", "make_digits"}) {
    const Result help = run(tool + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.output, HasSubstr("Usage: " + tool));
    EXPECT_THAT(help.output,
                testing::Not(HasSubstr("logtostderr")));  // the library's flags are not for users
    expect_bad_input(tool, "expected");
    expect_bad_input(tool + " --overwriet a b c", "unknown flag --overwriet");
  }
  expect_bad_input("make_digits --train=many x", "cannot be \"many\"");
  expect_bad_input("make_digits x --train", "needs a value");
}

TEST_F(Tools, ConvertMnist) {
  write_gzip(path("images.gz"), idx_images(12));
  write_file(path("labels"), idx_labels(12));
  const std::string command = "convert_mnist " + path("images.gz") + " " + path("labels") + " " + path("db");
  const Result result = run(command);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::Not(HasSubstr("\r")));  // no progress line in a pipe
  const auto source = open_lmdb(path("db"));
  EXPECT_EQ(source->size(), 12u);
  Record record;
  const auto reader = source->reader();
  reader->read(11, record);
  EXPECT_EQ(record.label, 1);
  EXPECT_EQ(record.height, 2);
  EXPECT_EQ(record.width, 3);
  EXPECT_EQ(record.bytes[0], 66);
  EXPECT_THAT(reader->describe(11), HasSubstr("\"00000011\""));
  expect_bad_input(command, "exists");
  EXPECT_EQ(run(command + " --overwrite").code, 0);
}

#ifdef BANYAN_WITH_LEVELDB
TEST_F(Tools, ALevelDbHoldsWhatAnLmdbHolds) {
  write_file(path("images"), idx_images(12));
  write_file(path("labels"), idx_labels(12));
  const std::string from = "convert_mnist " + path("images") + " " + path("labels") + " ";
  EXPECT_EQ(run(from + path("light")).code, 0);
  EXPECT_EQ(run(from + path("level") + " --backend=leveldb").code, 0);
  const auto light = open_lmdb(path("light")), level = open_leveldb(path("level"));
  ASSERT_EQ(level->size(), 12u);
  const auto light_reader = light->reader(), level_reader = level->reader();
  for (std::uint64_t i = 0; i < 12; ++i) {
    Record one, other;
    light_reader->fetch(i, one);
    level_reader->fetch(i, other);
    EXPECT_EQ(other.stored, one.stored);
  }
}
#endif

TEST_F(Tools, ConvertMnistRefusesWrongFiles) {
  write_file(path("images"), idx_images(12));
  write_file(path("labels"), idx_labels(12));
  const auto command = [&](const std::string& images, const std::string& labels) {
    return "convert_mnist " + path(images) + " " + path(labels) + " " + path("db");
  };
  expect_bad_input(command("none", "labels"), "cannot open");
  expect_bad_input(command("labels", "images"), "expected the magic number 2051");
  write_file(path("fewer"), idx_labels(11));
  expect_bad_input(command("images", "fewer"), "holds 12 images, but");
  write_file(path("cut"), idx_images(12).substr(0, 50));
  expect_bad_input(command("cut", "labels"), "is truncated: expected 72 bytes of pixels, found 34");
  write_file(path("long"), idx_images(12) + "x");
  expect_bad_input(command("long", "labels"), "more bytes");
  write_file(path("huge"), idx_images(12).replace(4, 4, big_endian(1 << 28)));
  expect_bad_input(command("huge", "labels"), "truncated");
  write_gzip(path("images.gz"), idx_images(12));
  std::filesystem::resize_file(path("images.gz"), std::filesystem::file_size(path("images.gz")) - 12);
  expect_bad_input(command("images.gz", "labels"), "images.gz");
  EXPECT_FALSE(std::filesystem::exists(path("db")));
}

TEST_F(Tools, ConvertImagesetStoresPixelsOrFiles) {
  const Image image = gradient_image(3, 6, 8);
  const auto png = encode_image(image, "png"), jpg = encode_image(image, "jpg");
  write_file(path("a b.png"), png);
  write_file(path("c.jpeg"), jpg);
  write_file(path("list"), std::string("a b.png 4\nmissing.png 5\nc.jpeg 6\n"));
  const std::string arguments = " " + folder_ + "/ " + path("list") + " ";
  Result result = run("convert_imageset" + arguments + path("raw"));
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::AllOf(HasSubstr("Left out"), HasSubstr("missing.png"),
                                            HasSubstr("Processed 2 files.")));
  auto reader = open_lmdb(path("raw"))->reader();
  Record record;
  reader->read(0, record);
  EXPECT_FALSE(record.encoded);
  EXPECT_EQ(record.label, 4);
  EXPECT_EQ(record.bytes[0], image.pixels[0]);
  EXPECT_EQ(record.bytes[48], image.pixels[1]);  // C x H x W
  EXPECT_THAT(reader->describe(0), HasSubstr("00000000_a b.png"));
  reader->read(1, record);
  EXPECT_THAT(reader->describe(1), HasSubstr("00000002_c.jpeg"));  // a gap for the missing one

  ASSERT_EQ(run("convert_imageset --encoded" + arguments + path("files")).code, 0);
  reader = open_lmdb(path("files"))->reader();
  reader->read(0, record);
  EXPECT_TRUE(record.encoded);
  EXPECT_EQ(record.image.pixels, image.pixels);

  ASSERT_EQ(run("convert_imageset --gray --resize_width=4 --resize_height 3 --encode_type=jpg --shuffle" +
                arguments + path("small"))
                .code,
            0);
  reader = open_lmdb(path("small"))->reader();
  reader->read(0, record);
  EXPECT_EQ(record.channels, 1);
  EXPECT_EQ(record.height, 3);
  EXPECT_EQ(record.width, 4);
}

TEST_F(Tools, ConvertImagesetErrors) {
  write_file(path("a.png"), encode_image(gradient_image(3, 6, 8), "png"));
  write_file(path("b.png"), encode_image(gradient_image(3, 7, 8), "png"));
  write_file(path("list"), std::string("a.png 4\nb.png 6\n"));
  const std::string arguments = " " + folder_ + "/ " + path("list") + " " + path("db");
  expect_bad_input("convert_imageset --check_size" + arguments, "the first image is 6 x 8");
  expect_bad_input("convert_imageset --resize_width=4" + arguments, "given together");
  expect_bad_input("convert_imageset --backend=rocksdb" + arguments, "expected lmdb or leveldb");
  expect_bad_input("convert_imageset --encode_type=gif" + arguments, "gif");
  expect_bad_input("convert_imageset /none/ " + path("list") + " " + path("db"), "none of the 2 images");
  expect_bad_input("convert_imageset " + folder_ + "/ " + path("nolist") + " " + path("db"),
                   "cannot open the image list");
  EXPECT_FALSE(std::filesystem::exists(path("db")));
}

TEST_F(Tools, ComputeImageMean) {
  make_numbered_lmdb(path("db"), 5, 2, 2, 3);  // pixel values 0..4
  const Result result = run("compute_image_mean " + path("db") + " " + path("mean"));
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output,
              testing::AllOf(HasSubstr("Number of channels: 2"), HasSubstr("mean_value channel [1]: 2")));
  std::ifstream file(path("mean"), std::ios::binary);
  caffe::BlobProto blob;
  ASSERT_TRUE(blob.ParseFromIstream(&file));
  EXPECT_EQ(blob.num(), 1);
  EXPECT_EQ(blob.channels(), 2);
  EXPECT_EQ(blob.height(), 2);
  EXPECT_EQ(blob.width(), 3);
  EXPECT_FALSE(blob.has_shape());
  ASSERT_EQ(blob.data_size(), 12);
  EXPECT_EQ(blob.data(7), 2.0f);
  EXPECT_EQ(run("compute_image_mean " + path("db")).code, 0);
  expect_bad_input("compute_image_mean " + path("db") + " " + path("mean"),
                   "exists; remove it, or pass --overwrite");
  EXPECT_EQ(run("compute_image_mean --overwrite " + path("db") + " " + path("mean")).code, 0);
  expect_bad_input("compute_image_mean " + path("none"), "no such folder");
}

TEST_F(Tools, ComputeImageMeanNamesTheRecordOfAnotherSize) {
  LmdbWriter writer(path("db"));
  const std::uint8_t pixels[9] = {};
  writer.put("a", raw_datum(1, 2, 2, pixels, 0));
  writer.put("b", raw_datum(1, 3, 3, pixels, 0));
  writer.close();
  expect_bad_input("compute_image_mean " + path("db"), "key \"b\"): expected 1 x 2 x 2");
}

TEST_F(Tools, MakeDigitsIsReproducible) {
  EXPECT_EQ(run("make_digits --train=60 --test=20 " + path("a/b")).code, 0);
  EXPECT_EQ(run("make_digits --train=60 --test=20 " + path("c")).code, 0);
  EXPECT_EQ(run("make_digits --train=60 --test=20 --seed=2 " + path("d")).code, 0);
  Record record;
  std::vector<std::vector<std::uint8_t>> images;
  for (const char* name : {"a/b/train_lmdb", "c/train_lmdb", "d/train_lmdb", "c/test_lmdb"}) {
    const auto source = open_lmdb(path(name));
    EXPECT_EQ(source->size(), std::string(name) == "c/test_lmdb" ? 20u : 60u);
    const auto reader = source->reader();
    reader->read(7, record);
    EXPECT_EQ(record.width, kDigitSide);
    images.emplace_back(record.bytes, record.bytes + kDigitSide * kDigitSide);
  }
  EXPECT_EQ(images[0], images[1]);
  EXPECT_NE(images[0], images[2]);
  EXPECT_NE(images[0], images[3]);
  expect_bad_input("make_digits " + path("c"), "exists");
  expect_bad_input("make_digits --train=0 " + path("e"), "must be positive");
}

TEST(Digits, LabelsAreBalancedAndImagesHaveInk) {
  std::vector<int> counts(10);
  std::uint8_t pixels[kDigitSide * kDigitSide];
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ++counts[digit_label(1, 2, i)];
    if (i >= 100) continue;
    draw_digit(1, 2, i, pixels);
    int bright = 0;
    for (const std::uint8_t pixel : pixels) bright += pixel > 128;
    EXPECT_GT(bright, 10) << i;
    EXPECT_LT(bright, 300) << i;
  }
  // 200 each, deviation 13; five deviations are allowed.
  for (const int count : counts) EXPECT_NEAR(count, 200, 67);
}

}  // namespace
}  // namespace banyan::data
