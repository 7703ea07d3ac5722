// `trainer check`: nets that are whole in one phase only; modules of layers in Python that are not there;
// files of detections that cannot be looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "banyan/train/commands.hpp"
#include "io/io_test_tools.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing::Not;

class CheckTestOnly : public testing::Test {
 protected:
  CheckReport check(const std::string& text, std::optional<Phase> phase = {}) {
    io::put_file(folder_.file("file.prototxt"), text);
    CheckOptions options;
    options.files = {folder_.file("file.prototxt")};
    options.phase = phase;
    return check_files(options);
  }
  io::TemporaryFolder folder_;
};

constexpr const char* kNote = "the net is whole in phase TEST only (--phase=TEST)";
const std::string kPictures =
    "layer { name: 'i' type: 'Input' top: 'data' input_param { shape { dim: [2, 3, 4, 4] } } } ";
const std::string kFlat =
    "layer { name: 'f' type: 'Flatten' bottom: 'data' top: 'flat' include { phase: TEST } } ";
const std::string kScores =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'flat' top: 'ip' inner_product_param { num_output: 2 } "
    "} ";

TEST_F(CheckTestOnly, ANetToRunIsCheckedThere) {
  const CheckReport report = check(kPictures + kFlat + kScores);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr(kNote));
  EXPECT_THAT(report.text, HasSubstr("phase TRAIN was not checked"));
  // It is looked at in TEST.
  EXPECT_THAT(
      check(kPictures + kFlat + kScores +
            "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { kernel_size: 9 } }")
          .text,
      HasSubstr("layer \"p\" (Pooling)"));
  // Asked for, the phase is checked as ever.
  EXPECT_EQ(check(kPictures + kFlat + kScores, Phase::train).problems, 1);
  EXPECT_THAT(check(kPictures + kFlat + kScores, Phase::test).text, Not(HasSubstr(kNote)));
}

TEST_F(CheckTestOnly, ANetToTrainIsCheckedInTrain) {
  const std::string label =
      "layer { name: 'l' type: 'Input' top: 'label' input_param { shape { dim: 2 } } include { phase: TRAIN "
      "} } ";
  const std::string loss = "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'flat' bottom: 'label' } ",
                    flat = "layer { name: 'f' type: 'Flatten' bottom: 'data' top: 'flat' } ";
  const char* const note = "the net is whole in phase TRAIN only (--phase=TRAIN)";
  const CheckReport report = check(kPictures + flat + label + loss);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr(note));
  EXPECT_EQ(check(kPictures + flat + label + loss, Phase::test).problems, 1);
  // A layer for TEST says that the net is tested, too.
  const CheckReport tested =
      check(kPictures + flat + label + loss +
            "layer { name: 's' type: 'Softmax' bottom: 'flat' top: 's' include { phase: TEST } }");
  EXPECT_EQ(tested.problems, 1) << tested.text;
  EXPECT_THAT(tested.text, Not(HasSubstr(note)));
  // In TRAIN all is looked at.
  EXPECT_GE(
      check(kPictures + flat + label + loss +
            "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { kernel_size: 9 } }")
          .problems,
      1);
}

TEST_F(CheckTestOnly, AModuleThatIsNotThereIsMissingAsDataMayBe) {
  const std::string data =
      "layer { name: 'd' type: 'Python' top: 'data' top: 'label' python_param { module: 'no_such_module' "
      "layer: "
      "'Data' } } ";
  const std::string scores =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2 "
      "} } "
      "layer { name: 'loss' type: 'Python' bottom: 'ip' bottom: 'label' top: 'loss' loss_weight: 1 "
      "python_param { "
      "module: 'no_such_module' layer: 'Loss' } } ";
  const CheckReport report = check(data + scores);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"d\" (Python) cannot run here: "));
  EXPECT_THAT(report.text, HasSubstr("--shape=data:N,C,H,W gives one"));
  EXPECT_THAT(report.text, HasSubstr("layer \"loss\" (Python) cannot run here: "));  // known without shapes
  const CheckReport nameless =
      check(data + "layer { name: 'p' type: 'Python' bottom: 'data' top: 'p' python_param { module: 'm' } }");
  EXPECT_GE(nameless.problems, 1) << nameless.text;
  EXPECT_THAT(nameless.text, HasSubstr("python_param.layer is missing"));
}

TEST_F(CheckTestOnly, ANetToTrainIsWrong) {
  const std::string missing = "reads blob \"flat\", which no layer of the net produces; in phase TEST";
  const auto expect_wrong = [&](const std::string& text) {
    const CheckReport report = check(text);
    EXPECT_GE(report.problems, 1) << report.text;
    EXPECT_THAT(report.text, HasSubstr(missing));
    EXPECT_THAT(report.text, Not(HasSubstr(kNote)));
  };
  // A loss, by type or by weight.
  expect_wrong(kPictures + kFlat + kScores +
               "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'ip' top: 'l' }");
  expect_wrong(kPictures + kFlat + kScores +
               "layer { name: 'r' type: 'Reduction' bottom: 'ip' top: 'r' loss_weight: 1 }");
  // A data set.
  expect_wrong(
      "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'none' batch_size: 2 } "
      "transform_param { crop_size: 4 } } " +
      kFlat + kScores);
  // A layer for TRAIN alone.
  expect_wrong(kPictures + kFlat + kScores +
               "layer { name: 'o' type: 'Dropout' bottom: 'ip' top: 'ip' include { phase: TRAIN } }");
  // What TEST lacks, too.
  const CheckReport both =
      check(kPictures + kFlat + kScores + "layer { name: 'x' type: 'ReLU' bottom: 'no' top: 'x' }");
  EXPECT_GE(both.problems, 2) << both.text;
  // A solver's net is to be trained, whatever it looks like.
  io::put_file(folder_.file("net.prototxt"), kPictures + kFlat + kScores);
  expect_wrong("net: '" + folder_.file("net.prototxt") + "' base_lr: 1 lr_policy: 'fixed' max_iter: 1");
}

std::string frcnn_output(const std::string& map, const std::string& sizes) {
  return "layer { name: 'i' type: 'Input' top: 'p' top: 's' top: 'r' top: 'n' input_param { shape { dim: [4, "
         "3] } "
         "shape { dim: [4, 12] } shape { dim: [4, 5] } shape { dim: [1, 2] } } } layer { name: 'o' type: "
         "'FrcnnOutput' bottom: 'p' bottom: 's' bottom: 'r' bottom: 'n' top: 'o' frcnn_output_param { "
         "save_output_param { output_directory: 'out' output_format: 'VOC' label_map_file: '" +
         map + "' name_size_file: '" + sizes + "' } } }";
}

TEST_F(CheckTestOnly, FilesOfFrcnnOutputThatDoNotExistAreNoProblem) {
  const CheckReport report = check(frcnn_output(folder_.file("no_map"), folder_.file("no_sizes")));
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"o\" (FrcnnOutput): \"" + folder_.file("no_map") +
                                     "\" does not exist here; checked as if it were not given"));
}

TEST_F(CheckTestOnly, FoldersThatMayNotBeReadAreNoProblem) {
  const std::string closed = folder_.file("closed");
  ASSERT_EQ(::mkdir(closed.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  // Root may look everywhere, so a child process without that right makes the attempt.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(3);
    struct stat seen {};  // folders for temporary files may be root's alone
    if (::stat(closed.c_str(), &seen) != 0) ::_exit(3);
    const CheckReport report = check(frcnn_output(closed + "/map", closed + "/sizes"));
    const bool told = report.text.find("/map\" cannot be looked at (Permission denied)") != std::string::npos;
    ::_exit(report.problems == 0 && told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::chmod(closed.c_str(), 0755);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "cannot act as an ordinary user here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The same for a name that no folder can hold.
  EXPECT_THAT(check(frcnn_output(folder_.file(std::string(300, 'x')), "")).text,
              HasSubstr("cannot be looked at (File name too long)"));
}

}  // namespace
}  // namespace banyan
