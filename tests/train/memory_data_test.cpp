// MemoryData: what a program puts in is what the net trains on.

#include <gmock/gmock.h>

#include "banyan/base/error.hpp"
#include "banyan/train/session.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainingCase memory_case(const std::string& more = "") {
  TrainingCase of;
  of.solver = std::string(kFixedSolver) + "snapshot_after_train: false ";
  of.net =
      "layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { batch_size: 3 "
      "channels: 2 "
      "height: 2 width: 1 } " +
      more +
      " } layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 's' inner_product_param { num_output: "
      "2 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'loss' }";
  of.iterations = 100;
  return of;
}

template <class Body>
std::string refused_call(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

const std::vector<double> kImages = {1, 0, 2, 0, 0, 1, 0, 3, 1, 1, 4, 1}, kLabels = {0, 1, 0};

TEST(MemoryData, TrainsOnWhatTheProgramPutsIn) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  Session session(options_of(memory_case("transform_param { scale: 2 }"), folder, 2));  // without effect
  for (const int device : {0, 1}) {
    session.set_input("data", kImages, device);
    session.set_input("label", kLabels, device);
  }
  session.step(1);
  EXPECT_EQ(session.blob("data", 1).values, kImages);
  EXPECT_EQ(session.blob("label").values, kLabels);
  const double first = session.metrics().loss;
  session.step(60);
  EXPECT_EQ(session.blob("data").values, kImages);  // it stays
  EXPECT_LT(session.metrics().loss, first);
  const std::vector<double> other(12, 0.5);
  session.set_input("data", other);
  session.step(1);
  EXPECT_EQ(session.blob("data").values, other);
  EXPECT_EQ(session.blob("data", 1).values, kImages);
}

TEST(MemoryData, OfAnyShape) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  TrainingCase of = memory_case();
  of.net.replace(of.net.find("channels: 2"), 11, "dim: [3, 1, 2, 1, 2, 1] channels: 9");
  Session session(options_of(of, folder, 1));
  session.set_input("data", kImages);
  session.set_input("label", kLabels);
  session.step(1);
  EXPECT_EQ(session.blob("data").shape, (Shape{3, 1, 2, 1, 2, 1}));
  EXPECT_EQ(session.blob("label").shape, Shape{3});
  of.net.replace(of.net.find("dim: [3, 1"), 10, "dim: [3, 0");
  EXPECT_THAT(refused_call([&] { Session(options_of(of, folder, 1)); }), HasSubstr("each dim"));
}

TEST(MemoryData, IsNotTrainedOnBeforeThat) {
  FLAGS_minloglevel = 3;
  const TrainingFolder folder;
  {
    Session session(options_of(memory_case(), folder, 1));
    EXPECT_THAT(
        refused_call([&] { session.step(1); }),
        AllOf(HasSubstr("layer \"m\" (MemoryData)"), HasSubstr("nothing was put into its output \"data\"")));
  }
  Session session(options_of(memory_case(), folder, 1));
  session.set_input("data", kImages);
  EXPECT_THAT(refused_call([&] { session.step(1); }), HasSubstr("output \"label\""));
}

TEST(RoIDataLayer, IsFilledByAProgram) {
  FLAGS_minloglevel = 3;
  TrainingCase of = memory_case();
  of.net =
      "layer { name: 'd' type: 'Python' top: 'data' top: 'im_info' python_param { module: "
      "'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: '{height: 2, width: 1}' } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 's' inner_product_param { num_output: 3 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 's' bottom: 'im_info' top: 'loss' }";
  const TrainingFolder folder;
  {
    Session session(options_of(of, folder, 1));
    EXPECT_THAT(
        refused_call([&] { session.step(1); }),
        AllOf(HasSubstr("layer \"d\" (Python): nothing was put into its output \"data\": a program does"),
              HasSubstr("the trainer runs no module that reads its data")));
  }
  Session session(options_of(of, folder, 1));
  session.set_input("data", {1, 0, 2, 0, 0, 1});
  session.set_input("im_info", {2, 1, 1});
  session.step(1);
  EXPECT_GT(session.metrics().loss, 0);
}

TEST(MemoryData, RefusesWhatDoesNotFit) {
  FLAGS_minloglevel = 3;
  const TrainingFolder folder;
  Session session(options_of(memory_case(), folder, 1));
  EXPECT_THAT(refused_call([&] { session.set_input("data", kLabels); }),
              AllOf(HasSubstr("3 2 2 1 (12)"), HasSubstr("found 3 values")));
  EXPECT_THAT(refused_call([&] { session.set_input("s", kLabels); }),
              HasSubstr("no blob \"s\" that a program fills"));
  EXPECT_THAT(refused_call([&] { session.set_input("data", kImages, 1); }),
              HasSubstr("there is no device 1"));
  EXPECT_THAT(refused_call([&] { session.set_input("data", kImages, 0, 0); }),
              HasSubstr("there is no test net 0"));
  session.set_input("data", kImages);  // the session goes on
  session.set_input("label", kLabels);
  session.step(1);
  TrainingCase no_height = memory_case();
  no_height.net.replace(no_height.net.find("height: 2"), 9, "");
  EXPECT_THAT(refused_call([&] { Session(options_of(no_height, folder, 1)); }),
              HasSubstr("positive batch_size"));
}

}  // namespace
}  // namespace banyan
