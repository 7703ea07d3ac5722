// Training from HDF5 data, with snapshots in HDF5 form.

#include <gmock/gmock.h>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "io/hdf5_maker.hpp"
#include "train/training_case.hpp"

#ifdef BANYAN_WITH_HDF5

namespace banyan {
namespace {

/// Three files of 10, 7 and 13 rows, which are neither batches nor shares.
void write_rows(const TrainingFolder& folder) {
  std::ofstream list(folder.path() + "/list");
  double number = 0;
  for (const hsize_t rows : {10, 7, 13}) {
    const std::string name = folder.path() + "/rows" + std::to_string(rows) + ".h5";
    list << name << "\n";
    Hdf5Maker file(name);
    std::vector<double> data, labels;
    for (hsize_t i = 0; i < rows; ++i, ++number) {
      labels.push_back(std::fmod(number * 7, 4));
      for (int j = 0; j < 6; ++j)
        data.push_back(std::fmod(number * 13 + 5 * j, 17) / 17 + labels.back() * (j % 2));
    }
    file.add("data", {rows, 6}, data, H5T_NATIVE_DOUBLE, 3);
    file.add("label", {rows}, labels, H5T_NATIVE_INT8);
  }
}

TrainingCase training(const TrainingFolder& folder, int batch) {
  const std::string net =
      "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: '" +
      folder.path() + "/list' shuffle: true batch_size: " + std::to_string(batch) +
      " } } layer { name: 'part/ip1' type: 'InnerProduct' bottom: 'data' top: 'h' inner_product_param { "
      "num_output: 5 "
      "weight_filler { type: 'xavier' } } } layer { name: 'relu' type: 'ReLU' bottom: 'h' top: 'h' } "
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'h' top: 's' inner_product_param { num_output: 4 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'loss' }";
  TrainingCase what{std::string(kFixedSolver) + "snapshot: 7 snapshot_format: HDF5", net};
  return what;
}

Trained read_hdf5(const TrainingFolder& folder, int iteration) {
  const SnapshotPaths paths = snapshot_paths(folder.path() + "/out", iteration, SnapshotFormat::hdf5);
  Trained result;
  result.state = read_snapshot(paths.state).state;
  result.weights = io::read_weights(paths.model);
  return result;
}

Trained train_rows(int devices, int batch) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  write_rows(folder);
  EXPECT_EQ(train(options_of(training(folder, batch), folder, devices)), 0);
  return read_hdf5(folder, 20);
}

/// Only the order of additions differs: f64.
TEST(Hdf5Training, SeveralDevicesAreOne) {
  const Trained one = train_rows(1, 6);
  EXPECT_LT(one.losses().back(), one.losses().front());
  for (const int devices : {2, 3})
    EXPECT_LE(largest_difference(one.values(), train_rows(devices, 6 / devices).values()), 1e-10) << devices;
}

TEST(Hdf5Training, AResumedRunHasTheSameBits) {
  FLAGS_minloglevel = 2;
  for (const int devices : {1, 3}) {
    const TrainingFolder folder;
    write_rows(folder);
    const TrainingCase what = training(folder, 4);
    train(options_of(what, folder, devices));
    const Trained whole = read_hdf5(folder, 20);
    const SnapshotPaths end = snapshot_paths(folder.path() + "/out", 20, SnapshotFormat::hdf5);
    const std::string bytes = io::read_file(end.model, 1 << 20);
    for (const std::string& path : {end.model, end.state}) std::filesystem::remove(path);
    TrainOptions resumed = options_of(what, folder, devices);
    resumed.snapshot = *find_latest_snapshot(folder.path() + "/out");
    EXPECT_TRUE(resumed.snapshot.ends_with("out_iter_14.solverstate.h5")) << resumed.snapshot;
    train(resumed);
    EXPECT_EQ(io::read_file(end.model, 1 << 20), bytes);
    EXPECT_EQ(read_hdf5(folder, 20).losses(), whole.losses());
  }
}

/// The same training saved in both forms.
TEST(Hdf5Training, BothFormsHoldTheSame) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  write_rows(folder);
  TrainingCase what = training(folder, 4);
  train(options_of(what, folder, 1));
  what.solver.replace(what.solver.find("snapshot_format: HDF5"), 21, "");
  train(options_of(what, folder, 1));
  const Trained binary = read_trained(folder, 20), hdf5 = read_hdf5(folder, 20);
  for (const io::LayerWeights& layer : binary.weights.layers) {
    const io::LayerWeights* other = hdf5.weights.find(layer.name);
    ASSERT_NE(other, nullptr) << layer.name;
    ASSERT_EQ(other->blobs.size(), layer.blobs.size());
    for (std::size_t i = 0; i < layer.blobs.size(); ++i) {
      EXPECT_EQ(other->blobs[i].doubles, layer.blobs[i].doubles);
      EXPECT_EQ(other->blobs[i].shape, layer.blobs[i].shape);
    }
  }
  ASSERT_EQ(hdf5.state.history_size(), binary.state.history_size());
  EXPECT_EQ(hdf5.state.history(0).SerializeAsString(), binary.state.history(0).SerializeAsString());
  EXPECT_EQ(hdf5.state.banyan().source(0).consumed(), binary.state.banyan().source(0).consumed());
}

/// A model that is not the state's is found by its checksum, and a damaged snapshot is passed over.
TEST(Hdf5Training, AnotherModelIsRefused) {
  FLAGS_minloglevel = 3;
  const TrainingFolder folder;
  write_rows(folder);
  train(options_of(training(folder, 4), folder, 1));
  const std::string prefix = folder.path() + "/out";
  const SnapshotPaths end = snapshot_paths(prefix, 20, SnapshotFormat::hdf5);
  std::filesystem::copy_file(snapshot_paths(prefix, 14, SnapshotFormat::hdf5).model, end.model,
                             std::filesystem::copy_options::overwrite_existing);
  try {
    read_snapshot(end.state);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("its checksum is not the one that the state names"));
  }
  EXPECT_EQ(find_latest_snapshot(prefix), snapshot_paths(prefix, 14, SnapshotFormat::hdf5).state);
}

TEST(Hdf5Training, ANameThatIsNoGroupIsRefusedAtTheStart) {
  FLAGS_minloglevel = 3;
  const TrainingFolder folder;
  write_rows(folder);
  TrainingCase what = training(folder, 4);
  what.net.replace(what.net.find("part/ip1"), 8, "part//ip1");
  try {
    train(options_of(what, folder, 2));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("layer \"part//ip1\" cannot be stored in HDF5"));
  }
}

/// A layer that shares another's parameters has none of its own in the file.
TEST(Hdf5Training, SharedParametersComeFromTheirOwner) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  write_rows(folder);
  TrainingCase what = training(folder, 4);
  what.net +=
      "layer { name: 'twin' type: 'InnerProduct' bottom: 'data' top: 't' param { name: 'w' } param { name: "
      "'b' } "
      "inner_product_param { num_output: 5 } } layer { name: 'q' type: 'Silence' bottom: 't' }";
  const std::size_t first = what.net.find("inner_product_param");
  what.net.insert(first, "param { name: 'w' } param { name: 'b' } ");
  train(options_of(what, folder, 1));
  EXPECT_TRUE(read_hdf5(folder, 20).weights.find("twin")->blobs.empty());
  TrainOptions resumed = options_of(what, folder, 1);
  resumed.snapshot = snapshot_paths(folder.path() + "/out", 14, SnapshotFormat::hdf5).state;
  const std::vector<double> values = read_hdf5(folder, 20).values();
  train(resumed);
  EXPECT_EQ(read_hdf5(folder, 20).values(), values);
}

}  // namespace
}  // namespace banyan

#endif
