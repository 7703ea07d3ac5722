// compute_image_mean DB [OUT]: the mean image of an LMDB as a binary BlobProto, as Caffe's tool of that name
// writes it.
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "common/image_mean.hpp"

DEFINE_bool(overwrite, false, "replace OUT if it exists");
DEFINE_string(backend, "lmdb", "type of database; lmdb or leveldb");

namespace {

using namespace banyan;

tools::ImageMean mean_of_records(const std::string& path) {
  const auto source = FLAGS_backend == "leveldb" ? data::open_leveldb(path) : data::open_lmdb(path);
  const auto reader = source->reader();
  tools::Progress progress("Averaging", source->size());
  tools::ImageMean mean;
  data::Record record;
  for (std::uint64_t i = 0; i < source->size(); ++i) {
    data::read_record(*reader, i, record);
    try {
      mean.add(record);
    } catch (const Error& error) {
      throw Error(error.kind(), reader->describe(i) + ": " + error.message());
    }
    progress.step();
  }
  return mean;
}

void compute(const std::vector<std::string>& arguments) {
  data::check_backend(FLAGS_backend);
  if (arguments.size() > 1) tools::expect_absent(arguments[1], FLAGS_overwrite);
  const tools::ImageMean mean = mean_of_records(arguments[0]);
  if (arguments.size() > 1) mean.write(arguments[1]);
  LOG(INFO) << "Number of channels: " << mean.channels;
  for (int c = 0; c < mean.channels; ++c) {
    double total = 0;
    for (int i = 0; i < mean.plane(); ++i) total += mean.at(c * mean.plane() + i);
    LOG(INFO) << "mean_value channel [" << c << "]: " << total / mean.plane();
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
