// A .caffemodel as BVLC's own reader sees it: with BVLC's public numbers of the fields that it copies weights
// by, and with nothing of ours.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

namespace pb = google::protobuf;

void add_field(pb::DescriptorProto& message, const std::string& name, int number, bool repeated,
               pb::FieldDescriptorProto::Type type, const std::string& type_name = "") {
  pb::FieldDescriptorProto& field = *message.add_field();
  field.set_name(name);
  field.set_number(number);
  field.set_label(repeated ? pb::FieldDescriptorProto::LABEL_REPEATED
                           : pb::FieldDescriptorProto::LABEL_OPTIONAL);
  field.set_type(type);
  if (!type_name.empty())
    field.set_type_name(type_name);
  else if (repeated)
    field.mutable_options()->set_packed(true);
}

/// What BVLC's Net::CopyTrainedLayersFrom and Blob::FromProto read of a file of floats.
pb::FileDescriptorProto bvlc_messages() {
  using Field = pb::FieldDescriptorProto;
  pb::FileDescriptorProto file;
  file.set_name("bvlc.proto");
  file.set_package("bvlc");
  file.set_syntax("proto2");
  pb::DescriptorProto& shape = *file.add_message_type();
  shape.set_name("BlobShape");
  add_field(shape, "dim", 1, true, Field::TYPE_INT64);
  pb::DescriptorProto& blob = *file.add_message_type();
  blob.set_name("BlobProto");
  add_field(blob, "data", 5, true, Field::TYPE_FLOAT);
  add_field(blob, "shape", 7, false, Field::TYPE_MESSAGE, ".bvlc.BlobShape");
  pb::DescriptorProto& layer = *file.add_message_type();
  layer.set_name("LayerParameter");
  add_field(layer, "name", 1, false, Field::TYPE_STRING);
  add_field(layer, "type", 2, false, Field::TYPE_STRING);
  add_field(layer, "blobs", 7, true, Field::TYPE_MESSAGE, ".bvlc.BlobProto");
  pb::DescriptorProto& net = *file.add_message_type();
  net.set_name("NetParameter");
  add_field(net, "name", 1, false, Field::TYPE_STRING);
  add_field(net, "layer", 100, true, Field::TYPE_MESSAGE, ".bvlc.LayerParameter");
  return file;
}

/// Fields of a message by their names.
class Fields {
 public:
  explicit Fields(const pb::Message& message) : message_(message), reflection_(*message.GetReflection()) {}

  std::string text(const char* name) const { return reflection_.GetString(message_, field(name)); }
  Fields message(const char* name) const { return Fields(reflection_.GetMessage(message_, field(name))); }
  std::vector<Fields> messages(const char* name) const {
    std::vector<Fields> all;
    for (int i = 0; i < size(name); ++i)
      all.emplace_back(reflection_.GetRepeatedMessage(message_, field(name), i));
    return all;
  }
  std::vector<double> floats(const char* name) const {
    std::vector<double> all;
    for (int i = 0; i < size(name); ++i)
      all.push_back(static_cast<double>(reflection_.GetRepeatedFloat(message_, field(name), i)));
    return all;
  }
  std::vector<std::int64_t> integers(const char* name) const {
    std::vector<std::int64_t> all;
    for (int i = 0; i < size(name); ++i)
      all.push_back(reflection_.GetRepeatedInt64(message_, field(name), i));
    return all;
  }

 private:
  const pb::FieldDescriptor* field(const char* name) const {
    return message_.GetDescriptor()->FindFieldByName(name);
  }
  int size(const char* name) const { return reflection_.FieldSize(message_, field(name)); }

  const pb::Message& message_;
  const pb::Reflection& reflection_;
};

/// Both kinds of batch normalization, convolutions that share weight and bias, an output that shares the
/// weight only.
TrainingCase of_all_kinds() {
  TrainingCase of;
  of.precision = RunPrecision::f32;  // BVLC's own; f64 would be saved as doubles
  of.iterations = 3;
  of.solver = kFixedSolver;
  const auto conv = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
           "' param { name: 'w' } param { name: 'b' } convolution_param { num_output: 3 kernel_size: 3 pad: "
           "1 "
           "weight_filler { type: 'xavier' } } }";
  };
  const auto scores = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
           "' param { name: 'scores' } inner_product_param { num_output: 5 weight_filler { type: 'xavier' } "
           "} }"
           "layer { name: 'loss_" +
           name + "' type: 'SoftmaxWithLoss' bottom: '" + name + "' bottom: 'label' top: 'loss_" + name +
           "' }";
  };
  of.net =
      "name: 'all_kinds' layer { name: 'images' type: 'Data' top: 'data' top: 'label' data_param { source: "
      "'DATA' "
      "batch_size: 4 backend: LMDB } transform_param { scale: 0.004 } }" +
      conv("conv1", "data") +
      "layer { name: 'sync' type: 'SyncBN' bottom: 'conv1' top: 'sync' bn_param { slope_filler { value: 1 } "
      "} }"
      "layer { name: 'relu' type: 'ReLU' bottom: 'sync' top: 'sync' }" +
      conv("conv2", "sync") +
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv2' top: 'bn' }"
      "layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'bn' scale_param { bias_term: true } }" +
      scores("early", "sync") + scores("late", "bn");
  return of;
}

TEST(BvlcReader, ReadsASnapshotByPublicNumbersOnly) {
  const TrainingFolder folder;
  Session session(options_of(of_all_kinds(), folder, 2));
  session.step(3);
  session.snapshot();
  std::ostringstream bytes;
  bytes << std::ifstream(snapshot_paths(folder.path() + "/out", 3).model, std::ios::binary).rdbuf();

  pb::DescriptorPool pool;
  const pb::FileDescriptor* messages = pool.BuildFile(bvlc_messages());
  ASSERT_NE(messages, nullptr);
  pb::DynamicMessageFactory factory(&pool);
  const std::unique_ptr<pb::Message> read(
      factory.GetPrototype(messages->FindMessageTypeByName("NetParameter"))->New());
  ASSERT_TRUE(read->ParseFromString(bytes.str()));
  read->DiscardUnknownFields();
  const Fields net(*read);
  EXPECT_EQ(net.text("name"), "all_kinds");

  const std::map<std::string, std::pair<std::string, std::size_t>> expected = {
      // type and number of blobs
      {"conv1", {"Convolution", 2}}, {"sync", {"SyncBN", 4}}, {"conv2", {"Convolution", 2}},
      {"bn", {"BatchNorm", 3}},      {"scale", {"Scale", 2}}, {"early", {"InnerProduct", 2}},
      {"late", {"InnerProduct", 2}}};
  std::map<std::string, std::vector<std::vector<double>>> values;
  for (const Fields& layer : net.messages("layer")) {
    const std::string name = layer.text("name");
    SCOPED_TRACE(name);
    const std::vector<Fields> blobs = layer.messages("blobs");
    if (blobs.empty()) continue;
    ASSERT_EQ(expected.count(name), 1u);
    EXPECT_EQ(layer.text("type"), expected.at(name).first);
    ASSERT_EQ(blobs.size(), expected.at(name).second);
    EXPECT_TRUE(values[name].empty()) << "twice in the file";
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      const std::string owner = name == "conv2" ? "conv1" : name == "late" && i == 0 ? "early" : name;
      const Values here = session.parameter(owner, static_cast<int>(i));
      EXPECT_EQ(blobs[i].message("shape").integers("dim"), here.shape.dims()) << i;
      EXPECT_EQ(blobs[i].floats("data"), here.values) << i;
      values[name].push_back(blobs[i].floats("data"));
    }
  }
  ASSERT_EQ(values.size(), expected.size());
  // BVLC wants every layer's blobs, shared ones too.
  EXPECT_EQ(values["conv1"], values["conv2"]);
  EXPECT_EQ(values["early"][0], values["late"][0]);
  EXPECT_NE(values["early"][1], values["late"][1]);
  EXPECT_NE(values["sync"][2], std::vector<double>(3, 0)) << "statistics have been seen";
  EXPECT_NE(values["bn"][0], std::vector<double>(3, 0));
}

}  // namespace
}  // namespace banyan
