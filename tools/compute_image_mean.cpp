// compute_image_mean DB [OUT]: the mean image of an LMDB as a binary BlobProto, as Caffe's tool of that name
// writes it.
#include <filesystem>

#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "banyan/io/atomic_file.hpp"
#include "common/tool.hpp"
#include "proto/banyan.pb.h"

DEFINE_bool(overwrite, false, "replace OUT if it exists");
DEFINE_string(backend, "lmdb", "type of database; lmdb or leveldb");

namespace {

using namespace banyan;

/// Sums over the records, C x H x W. f64 sums of 8-bit values are exact up to 2^45 records.
class Sums {
 public:
  void add(const data::Record& record) {
    if (count_ == 0) {
      channels = record.channels;
      height = record.height;
      width = record.width;
      sums_.resize(static_cast<std::size_t>(channels) * static_cast<std::size_t>(plane()));
    }
    if (record.channels != channels || record.height != height || record.width != width)
      bad_input("expected ", channels, " x ", height, " x ", width, " like the first record, found ",
                record.channels, " x ", record.height, " x ", record.width);
    for (int c = 0; c < channels; ++c) {
      const int first = record.interleaved ? c : c * plane(), step = record.interleaved ? channels : 1;
      for (int i = 0; i < plane(); ++i) {
        const int from = first + i * step;
        sums_[c * plane() + i] +=
            record.bytes != nullptr ? record.bytes[from] : static_cast<double>(record.floats[from]);
      }
    }
    ++count_;
  }
  int plane() const { return height * width; }
  double mean(int index) const { return sums_[index] / static_cast<double>(count_); }
  int channels = 0, height = 0, width = 0;

 private:
  std::vector<double> sums_;
  std::uint64_t count_ = 0;
};

Sums sum_records(const std::string& path) {
  const auto source = FLAGS_backend == "leveldb" ? data::open_leveldb(path) : data::open_lmdb(path);
  const auto reader = source->reader();
  tools::Progress progress("Averaging", source->size());
  Sums sums;
  data::Record record;
  for (std::uint64_t i = 0; i < source->size(); ++i) {
    data::read_record(*reader, i, record);
    try {
      sums.add(record);
    } catch (const Error& error) {
      throw Error(error.kind(), reader->describe(i) + ": " + error.message());
    }
    progress.step();
  }
  return sums;
}

void compute(const std::vector<std::string>& arguments) {
  data::check_backend(FLAGS_backend);
  if (arguments.size() > 1 && !FLAGS_overwrite && std::filesystem::exists(arguments[1]))
    bad_input(banyan::quoted(arguments[1]), " exists; remove it, or pass --overwrite");
  const Sums sums = sum_records(arguments[0]);
  caffe::BlobProto blob;
  blob.set_num(1);
  blob.set_channels(sums.channels);
  blob.set_height(sums.height);
  blob.set_width(sums.width);
  for (int i = 0; i < sums.channels * sums.plane(); ++i) blob.add_data(static_cast<float>(sums.mean(i)));
  if (arguments.size() > 1) {
    LOG(INFO) << "Write to " << arguments[1];
    io::write_file(arguments[1], blob.SerializeAsString());
  }
  LOG(INFO) << "Number of channels: " << sums.channels;
  for (int c = 0; c < sums.channels; ++c) {
    double total = 0;
    for (int i = 0; i < sums.plane(); ++i) total += sums.mean(c * sums.plane() + i);
    LOG(INFO) << "mean_value channel [" << c << "]: " << total / sums.plane();
  }
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"compute_image_mean", "DB [OUT]",
       "Averages the images of the folder DB (LMDB, or LevelDB with --backend=leveldb), which must all have "
       "the same size. Logs the mean of each "
       "channel and\n"
       "writes the mean image to OUT (.binaryproto) for transform_param.mean_file.",
       "compute_image_mean cifar10_train_lmdb mean.binaryproto", 1, 2, compute});
}
