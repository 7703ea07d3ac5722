// convert_cifar10 INPUT_FOLDER OUTPUT_FOLDER [BACKEND]: CIFAR-10's binary batches to databases and a mean
// image, with the names, keys and records of Caffe's convert_cifar_data and create_cifar10.sh.
#include <filesystem>

#include "banyan/data/datum.hpp"
#include "banyan/data/record_writer.hpp"
#include "common/image_mean.hpp"

DEFINE_bool(overwrite, false, "replace what exists in OUTPUT_FOLDER");
DEFINE_bool(mean, true, "write the mean image of the training set to OUTPUT_FOLDER/mean.binaryproto");

namespace {

using namespace banyan;

constexpr int kChannels = 3, kSide = 32, kClasses = 10;
constexpr std::size_t kImage = std::size_t{kChannels} * kSide * kSide;
constexpr std::size_t kRecord = 1 + kImage;  // label, then the red, green and blue plane
constexpr std::size_t kLargestFile = std::size_t{1} << 30;

std::string five_digits(std::uint64_t number) {
  const std::string text = tools::eight_digits(number);
  return number < 100000 ? text.substr(3) : text;
}

/// Adds the records of `file`, numbered on from those already written.
void convert_batch(const std::string& file, data::RecordWriter& writer, tools::ImageMean* mean) {
  const std::string bytes = io::read_file(file, kLargestFile);
  if (bytes.empty() || bytes.size() % kRecord != 0)
    bad_input(banyan::quoted(file), " has ", bytes.size(), " bytes; expected records of ", kRecord,
              " bytes each (CIFAR-10's binary version)");
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    const auto* record = reinterpret_cast<const std::uint8_t*>(bytes.data() + at);
    if (record[0] >= kClasses)
      bad_input(banyan::quoted(file), ": record ", at / kRecord, " has the label ", int{record[0]},
                "; expected 0 to 9");
    if (mean != nullptr) {
      data::Record pixels;
      pixels.channels = kChannels;
      pixels.height = pixels.width = kSide;
      pixels.bytes = record + 1;
      mean->add(pixels);
    }
    writer.put(five_digits(writer.records()),
               data::raw_datum(kChannels, kSide, kSide, record + 1, record[0]));
  }
}

void convert(const std::vector<std::string>& arguments) {
  const std::string backend = arguments.size() > 2 ? arguments[2] : "lmdb";
  data::check_backend(backend);
  const std::string from = arguments[0] + "/", to = arguments[1] + "/", mean_file = to + "mean.binaryproto";
  if (!std::filesystem::is_directory(from)) bad_input("there is no folder ", banyan::quoted(arguments[0]));
  if (FLAGS_mean) tools::expect_absent(mean_file, FLAGS_overwrite);
  const auto train = data::make_record_writer(backend, to + "cifar10_train_" + backend, FLAGS_overwrite);
  const auto test = data::make_record_writer(backend, to + "cifar10_test_" + backend, FLAGS_overwrite);
  tools::ImageMean mean;
  LOG(INFO) << "Writing Training data";
  for (int batch = 1; batch <= 5; ++batch) {
    LOG(INFO) << "Training Batch " << batch;
    convert_batch(cat(from, "data_batch_", batch, ".bin"), *train, FLAGS_mean ? &mean : nullptr);
  }
  LOG(INFO) << "Writing Testing data";
  convert_batch(from + "test_batch.bin", *test, nullptr);
  train->close();
  test->close();
  if (FLAGS_mean) mean.write(mean_file);
  LOG(INFO) << "Wrote " << train->records() << " images for training and " << test->records()
            << " for testing";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"convert_cifar10", "INPUT_FOLDER OUTPUT_FOLDER [lmdb|leveldb]",
       "Converts data_batch_1.bin to data_batch_5.bin and test_batch.bin of CIFAR-10's binary version to the "
       "databases\n"
       "cifar10_train_lmdb and cifar10_test_lmdb, and writes mean.binaryproto, in OUTPUT_FOLDER, "
       "which "
       "must exist.\n"
       "Colours stay red first, as in the files (and as in Caffe).",
       "convert_cifar10 cifar-10-batches-bin run/cifar10 lmdb", 2, 3, convert});
}
