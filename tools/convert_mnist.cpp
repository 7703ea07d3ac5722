// convert_mnist IMAGES LABELS DB: MNIST's idx files to an LMDB, with the keys and records of Caffe's
// convert_mnist_data.
#include "banyan/data/datum.hpp"
#include "banyan/data/idx.hpp"
#include "banyan/data/record_writer.hpp"
#include "common/tool.hpp"

DEFINE_string(backend, "lmdb", "type of database: lmdb or leveldb");
DEFINE_bool(overwrite, false, "replace DB if it exists");

namespace {

void convert(const std::vector<std::string>& arguments) {
  using namespace banyan;
  data::check_backend(FLAGS_backend);
  const data::IdxImages images = data::read_idx_images(arguments[0]);
  const std::vector<std::uint8_t> labels = data::read_idx_labels(arguments[1]);
  if (static_cast<std::size_t>(images.count) != labels.size())
    bad_input(banyan::quoted(arguments[0]), " holds ", images.count, " images, but ",
              banyan::quoted(arguments[1]), " holds ", labels.size(), " labels");
  if (images.count == 0) bad_input(banyan::quoted(arguments[0]), " holds no images");
  const auto writer = data::make_record_writer(FLAGS_backend, arguments[2], FLAGS_overwrite);
  tools::Progress progress("Converting", labels.size());
  const std::size_t bytes = static_cast<std::size_t>(images.height) * static_cast<std::size_t>(images.width);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    writer->put(tools::eight_digits(i),
                data::raw_datum(1, images.height, images.width, images.pixels.data() + i * bytes, labels[i]));
    progress.step();
  }
  writer->close();
  LOG(INFO) << "Wrote " << labels.size() << " images of " << images.height << " x " << images.width << " to "
            << arguments[2];
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"convert_mnist", "IMAGES LABELS DB",
       "Converts MNIST's idx files, gzipped or not, to a folder DB (LMDB, or LevelDB) that Data layers read.",
       "convert_mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz mnist_train_lmdb", 3, 3,
       convert});
}
