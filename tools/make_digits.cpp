// make_digits OUT: a data set of synthetic digits, OUT/train_lmdb and OUT/test_lmdb.
#include <filesystem>

#include "banyan/data/datum.hpp"
#include "banyan/data/digits.hpp"
#include "banyan/data/lmdb_writer.hpp"
#include "banyan/ops/random.hpp"
#include "common/tool.hpp"

DEFINE_int32(train, 10000, "number of images in OUT/train_lmdb");
DEFINE_int32(test, 2000, "number of images in OUT/test_lmdb");
DEFINE_uint64(seed, 1, "the same seed gives the same images");
DEFINE_bool(overwrite, false, "replace OUT/train_lmdb and OUT/test_lmdb if they exist");

namespace {

using namespace banyan;

void draw_set(const char* name, int count, data::LmdbWriter& writer) {
  const std::uint32_t stream = ops::stream_of(name);
  std::uint8_t pixels[data::kDigitSide * data::kDigitSide];
  tools::Progress progress(cat("Drawing ", name), static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    data::draw_digit(FLAGS_seed, stream, index, pixels);
    const int label = data::digit_label(FLAGS_seed, stream, index);
    writer.put(tools::eight_digits(index),
               data::raw_datum(1, data::kDigitSide, data::kDigitSide, pixels, label));
    progress.step();
  }
}

void make(const std::vector<std::string>& arguments) {
  if (FLAGS_train < 1 || FLAGS_test < 1) bad_input("--train and --test must be positive");
  const std::string& out = arguments[0];
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) bad_input("cannot create the folder ", banyan::quoted(out), ": ", error.message());
  // Both are opened before anything is drawn, so that nothing is written if one of them exists.
  data::LmdbWriter train(out + "/train_lmdb", FLAGS_overwrite), test(out + "/test_lmdb", FLAGS_overwrite);
  draw_set("train", FLAGS_train, train);
  draw_set("test", FLAGS_test, test);
  train.close();
  test.close();
  LOG(INFO) << "Drew " << FLAGS_train << " training and " << FLAGS_test << " test digits into " << out
            << "/train_lmdb and " << out << "/test_lmdb";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"make_digits", "OUT",
       "Draws digits of 28 x 28 pixels with random forms, shifts, slants, stroke widths, clutter and "
       "noise, and writes\nthem to the LMDB folders OUT/train_lmdb and OUT/test_lmdb.",
       "make_digits data/digits", 1, 1, make});
}
