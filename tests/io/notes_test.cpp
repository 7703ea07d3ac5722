#include "banyan/io/notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/banyan.pb.h"

namespace banyan::io {
namespace {

FieldNote note(const google::protobuf::Descriptor* message, const char* field) {
  const auto* found = message->FindFieldByName(field);
  return found == nullptr ? FieldNote{"no such field", ""} : note_of(*found);
}

TEST(Notes, AreTheCommentsOfTheSchema) {
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "test_iter").about, "one per test net");
  // On the lines before a field.
  EXPECT_EQ(note(caffe::NetParameter::descriptor(), "in_place_abn").about,
            "Batch normalization and the invertible activation after it keep only the activation's output.");
  EXPECT_EQ(note_of(*caffe::TransformationParameter::descriptor()),
            "Output is (pixel - mean) * scale, after cropping and mirroring.");
  EXPECT_EQ(note_of(*caffe::NetParameter::Storage_descriptor()),
            "How activations and their gradients are stored where the layers' types allow it. FULL: in the "
            "run's type.");
}

TEST(Notes, HeadingsNameTheBranchOfTheFieldsAfterThem) {
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "base_lr").branch, "");
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "rampup_interval").branch, "NVIDIA");
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "larc_eta").branch, "NVIDIA");
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "warmup_iter").branch, "Intel");
  EXPECT_EQ(note(caffe::SolverParameter::descriptor(), "timeout_sec").branch, "other branches");
  // The heading and the field's own comment are one comment.
  const FieldNote scaling = note(caffe::SolverParameter::descriptor(), "lr_scaling");
  EXPECT_EQ(scaling.branch, "Banyan");
  EXPECT_EQ(scaling.about, "LINEAR: base_lr x devices x batch x iter_size / base_batch_size");
  // A comment that begins with a branch's name, but is about one field.
  const FieldNote total = note(caffe::DataParameter::descriptor(), "batch_size_is_total");
  EXPECT_EQ(total.branch, "Banyan");
  EXPECT_EQ(total.about, "NVIDIA: batch_size is divided by the devices");
  EXPECT_EQ(note(caffe::ConvolutionParameter::descriptor(), "kernel_d").branch, "3-D branches");
  const FieldNote depth = note(caffe::PoolingParameter::descriptor(), "kernel_depth");
  EXPECT_EQ(depth.branch, "3-D branches");
  EXPECT_EQ(depth.about.find("3-D"), std::string::npos) << depth.about;
}

}  // namespace
}  // namespace banyan::io
