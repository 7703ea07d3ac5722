// The doctor on small runs: each fault is found, named, and has a remedy; a healthy run has none.
#include "banyan/train/doctor.hpp"

#include <glog/logging.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "banyan/base/log.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/train/session.hpp"
#include "train/doctor/data.hpp"
#include "train/doctor/nets.hpp"
#include "train/doctor/trial.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Doctor : public TrainerRun {
 protected:
  DoctorOptions doctor(const std::string& solver = "solver") const {
    DoctorOptions options;
    options.solver = solver.empty() ? "" : path(solver);
    options.devices.cpu = "2";
    options.iterations = 2;
    options.run.threads_per_device = 1;
    return options;
  }
  /// Findings about the run, not about the machine that the test happens to run on.
  std::vector<Finding> of_run(const Diagnosis& diagnosis) const {
    std::vector<Finding> found;
    for (const Finding& finding : diagnosis.findings) {
      const bool of_machine = finding.topic == "processor" || finding.topic == "memory" ||
                              finding.topic == "limits" || finding.topic == "disk" ||
                              finding.topic == "devices" || finding.topic == "input" ||
                              finding.topic == "snapshots";
      if (!of_machine) found.push_back(finding);
    }
    return found;
  }
  static std::string text_of(const Diagnosis& diagnosis) { return diagnosis_text(diagnosis); }
  /// The one finding of this kind; every finding that is not ok has a remedy.
  Finding only(const Diagnosis& diagnosis, FindingKind kind) const {
    std::vector<Finding> found;
    for (const Finding& finding : of_run(diagnosis))
      if (finding.kind == kind) found.push_back(finding);
    EXPECT_EQ(found.size(), 1u) << text_of(diagnosis);
    for (const Finding& finding : diagnosis.findings)
      EXPECT_EQ(finding.remedy.empty(), finding.kind == FindingKind::ok) << finding.text;
    return found.empty() ? Finding{} : found[0];
  }
  static std::string figure(const Diagnosis& diagnosis, const std::string& topic, const std::string& name) {
    for (const Finding& finding : diagnosis.findings)
      for (const auto& [key, value] : finding.figures)
        if (finding.topic == topic && key == name) return value;
    return "";
  }
  void make_lmdb(
      const std::string& name, const std::function<int(int)>& label,
      const std::function<int(int)>& side = [](int) { return 6; }) const {
    data::LmdbWriter writer(path(name));
    for (int i = 0; i < 64; ++i) {
      const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side(i) * side(i)), 7);
      std::string key = std::to_string(i);
      key.insert(0, 8 - key.size(), '0');
      writer.put(key, data::raw_datum(1, side(i), side(i), pixels.data(), label(i)));
    }
    writer.close();
  }
  /// Of the solver with another data set in its net.
  Diagnosis with_data(const std::string& source, const std::string& more = "max_iter: 4 snapshot: 2") const {
    write("net", source + net_behind_sources());
    write("solver", solver_for("net", more));
    return diagnose(doctor());
  }
};

TEST_F(Doctor, FindsNothingWrongWithAHealthyRunAndLeavesNothingBehind) {
  const auto before = files();
  const Diagnosis diagnosis = diagnose(doctor());
  for (const Finding& finding : of_run(diagnosis)) EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
  const std::string text = text_of(diagnosis);
  EXPECT_THAT(text, AllOf(HasSubstr("SGD, fixed, 4 iterations"), HasSubstr("cpu:0, cpu:1 with 1 thread each"),
                          HasSubstr("looked at all 48 records: 1 x 6 x 6, labels 0 to 2 of 3 classes"),
                          HasSubstr("batch 2 per device"), HasSubstr("2 snapshots of "),
                          HasSubstr("for 4 iterations: ")));
  EXPECT_EQ(files(), before);
  EXPECT_FALSE(std::filesystem::exists(path("run"))) << "the snapshots' folder is made by the run";
  EXPECT_EQ(figure(diagnosis, "time", "iterations_timed"), "2");
  EXPECT_EQ(figure(diagnosis, "snapshots", "snapshots"), "2");
  // What a snapshot of this run takes, to the byte.
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--threads_per_device=1"}), 0) << file("log");
  const auto bytes = std::filesystem::file_size(path("run/s_iter_4.caffemodel")) +
                     std::filesystem::file_size(path("run/s_iter_4.solverstate"));
  // The states differ in the lengths of the paths and numbers in them.
  EXPECT_NEAR(std::stod(figure(diagnosis, "snapshots", "snapshot_bytes")), static_cast<double>(bytes), 100);
}

TEST_F(Doctor, LooksAtTheMachineWithoutASolver) {
  const Diagnosis diagnosis = diagnose(doctor(""));
  std::vector<std::string> topics;
  for (const Finding& finding : diagnosis.findings) topics.push_back(finding.topic);
  for (const char* topic : {"devices", "processor", "memory", "limits", "disk"})
    EXPECT_THAT(topics, testing::Contains(topic));
  EXPECT_THAT(topics, Not(testing::Contains("time")));
}

TEST_F(Doctor, WritesJson) {
  google::protobuf::Struct parsed;
  const std::string json = diagnosis_json(diagnose(doctor()));
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  const auto& findings = parsed.fields().at("findings").list_value().values();
  const double sum = parsed.fields().at("errors").number_value() +
                     parsed.fields().at("warnings").number_value() + parsed.fields().at("ok").number_value();
  EXPECT_EQ(sum, findings.size());
  bool time = false;
  for (const auto& finding : findings) {
    const auto& fields = finding.struct_value().fields();
    for (const char* key : {"kind", "topic", "text", "remedy", "figures"})
      EXPECT_TRUE(fields.contains(key)) << key;
    if (fields.at("topic").string_value() != "time") continue;
    time = true;
    EXPECT_GT(fields.at("figures").struct_value().fields().at("iteration_seconds").number_value(), 0);
  }
  EXPECT_TRUE(time) << json;
}

TEST_F(Doctor, SaysWhichLayersAProgramMustFill) {
  const std::string shapes = "shape { dim: 2 dim: 1 dim: 6 dim: 6 } shape { dim: 2 } ";
  EXPECT_THAT(text_of(with_data("layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { " +
                                shapes + "} } ")),
              HasSubstr("layer \"in\" holds zeros: the trainer fills none"));
  EXPECT_THAT(
      text_of(with_data("layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' memory_data_param "
                        "{ batch_size: 2 channels: 1 height: 6 width: 6 } } ")),
      HasSubstr("layer \"in\" is filled by a program: the trainer refuses to run without its values"));
}

TEST_F(Doctor, ReportsEverythingThatCheckReports) {
  write("net",
        lmdb_source() + net_behind_sources() + "layer { name: 'x' type: 'ReLu' bottom: 'ip' top: 'x' }");
  write("solver", solver_for("net", "max_iter: 4 momentun: 0.9"));
  const Diagnosis diagnosis = diagnose(doctor());
  EXPECT_EQ(diagnosis.exit_code(), 2);
  EXPECT_THAT(text_of(diagnosis),
              AllOf(HasSubstr("unknown field \"momentun\""), HasSubstr("unknown type \"ReLu\""),
                    HasSubstr("-> correct it; trainer check "), HasSubstr("2 errors, ")));
  DoctorOptions ignoring = doctor();
  ignoring.unknown_fields = io::UnknownFields::ignore;
  EXPECT_THAT(only(diagnose(ignoring), FindingKind::error).text, HasSubstr("ReLu"));
}

TEST_F(Doctor, TellsOfEachFindingWhenItIsMade) {
  std::vector<std::string> told;
  DoctorOptions options = doctor();
  options.found = [&](const Finding& finding) { told.push_back(finding.text); };
  std::vector<std::string> texts;
  for (const Finding& finding : diagnose(options).findings) texts.push_back(finding.text);
  EXPECT_EQ(told, texts);
}

TEST_F(Doctor, ASolverThatIsNotThere) {
  EXPECT_THAT(only(diagnose(doctor("nowhere")), FindingKind::error).text, HasSubstr("nowhere"));
}

TEST_F(Doctor, DevicesThatAreNotThere) {
  DoctorOptions options = doctor();
  options.devices = {};
  options.devices.gpu = "999";
  const Diagnosis diagnosis = diagnose(options);
  EXPECT_EQ(diagnosis.exit_code(), 2);
  EXPECT_THAT(text_of(diagnosis), HasSubstr("--gpu=999: "));
  EXPECT_THAT(text_of(diagnosis), HasSubstr("processor ")) << "the rest is looked at all the same";
}

TEST_F(Doctor, DataThatAreNotThere) {
  write("net", lmdb_source("nowhere") + net_behind_sources());
  const Finding found = only(diagnose(doctor()), FindingKind::error);
  EXPECT_THAT(found.text, AllOf(HasSubstr("nowhere"), HasSubstr("does not exist")));
  EXPECT_THAT(found.topic, HasSubstr("train \""));
  EXPECT_THAT(found.remedy, HasSubstr("correct source"));
}

TEST_F(Doctor, AFolderThatCannotBeWritten) {
  std::string solver = solver_for("net");
  solver.replace(solver.find(path("run/s")), path("run/s").size(), "/proc/s");
  write("solver", solver);
  const Diagnosis diagnosis = diagnose(doctor());
  EXPECT_EQ(diagnosis.exit_code(), 2);
  std::vector<std::string> errors;
  for (const Finding& finding : diagnosis.findings)
    if (finding.kind == FindingKind::error) errors.push_back(finding.topic);
  EXPECT_THAT(errors, testing::ElementsAre("disk")) << text_of(diagnosis);
  EXPECT_THAT(only(diagnosis, FindingKind::warning).text, HasSubstr("snapshots cannot be written"));
}

TEST_F(Doctor, ARecordThatIsDamaged) {
  make_small_lmdb(path("damaged"), 17);
  const Diagnosis diagnosis = with_data(lmdb_source("damaged"));
  const Finding found = only(diagnosis, FindingKind::error);
  EXPECT_THAT(found.text, AllOf(HasSubstr("1 of 48 records cannot be used: "), HasSubstr("00000017")));
  EXPECT_THAT(only(diagnosis, FindingKind::warning).text, HasSubstr("no iteration was timed"));
}

TEST_F(Doctor, LabelsOutOfRange) {
  make_lmdb("labels", [](int i) { return i == 40 ? 3 : i % 3; });
  const Finding found = only(with_data(lmdb_source("labels")), FindingKind::error);
  EXPECT_THAT(found.text, AllOf(HasSubstr("1 of 64 labels are outside the 3 classes 0 to 2"),
                                HasSubstr("00000040"), HasSubstr(": 3")));
}

TEST_F(Doctor, ImagesOfSeveralSizesInABatch) {
  make_lmdb(
      "sizes", [](int i) { return i % 3; }, [](int i) { return i == 63 ? 8 : 6; });
  const Finding found = only(with_data(lmdb_source("sizes")), FindingKind::error);
  EXPECT_THAT(found.text,
              AllOf(HasSubstr("the first is 1 x 6 x 6"), HasSubstr("00000063"), HasSubstr("1 x 8 x 8")));
  // A crop makes them equal.
  const std::string source =
      R"(layer { name: "images" type: "Data" top: "data" top: "label" data_param { source: ")" +
      path("sizes") + R"(" batch_size: 2 backend: LMDB } transform_param { crop_size: 6 } })";
  for (const Finding& finding : of_run(with_data(source)))
    EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
}

TEST_F(Doctor, RecordsSortedByLabel) {
  make_lmdb("sorted", [](int i) { return i / 32; });
  const Finding found = only(with_data(lmdb_source("sorted")), FindingKind::warning);
  EXPECT_THAT(found.text, HasSubstr("sorted by label"));
  EXPECT_THAT(found.remedy, HasSubstr("shuffle: true"));
}

TEST_F(Doctor, TestsThatDoNotCoverTheTestSet) {
  const auto tested = [&](int test_iter) {
    return with_data(lmdb_source(), "max_iter: 1000 snapshot: 1000 test_interval: 1000 test_iter: " +
                                        std::to_string(test_iter));
  };
  EXPECT_THAT(only(tested(3), FindingKind::warning).text, HasSubstr("a test takes 6 of 48 records"));
  EXPECT_EQ(only(tested(3), FindingKind::warning).remedy, "test_iter: 24");
  EXPECT_THAT(only(tested(30), FindingKind::warning).text, HasSubstr("some count more than once"));
  for (const Finding& finding : of_run(tested(24))) EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
}

TEST_F(Doctor, ABatchLargerThanTheDataSet) {
  std::string source = lmdb_source();
  source.replace(source.find("batch_size: 2"), 13, "batch_size: 40");
  EXPECT_THAT(only(with_data(source), FindingKind::warning).text,
              HasSubstr("a batch of all devices has 80 samples, the data set 48"));
}

TEST_F(Doctor, ANetThatNeedsMoreMemoryThanThereIs) {
  write("net", R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 1000000 dim: 10000000 } shape { dim: 1000000 } } }
    layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
    layer { name: "exp" type: "Exp" bottom: "relu" top: "exp" }
    layer { name: "ip" type: "InnerProduct" bottom: "exp" top: "ip" inner_product_param { num_output: 10 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  const Finding found = only(diagnose(doctor()), FindingKind::error);
  EXPECT_EQ(found.topic, "memory of a device");
  EXPECT_THAT(found.text,
              AllOf(HasSubstr("need at least "),
                    AnyOf(HasSubstr("the largest batch that fits is about "), HasSubstr("no batch fits"))));
}

TEST_F(Doctor, ASnapshotToResumeFrom) {
  ASSERT_EQ(train_with("solver", {"--cpu=2", "--threads_per_device=1"}), 0) << file("log");
  DoctorOptions options = doctor();
  options.run.snapshot = path("run/s_iter_2.solverstate");
  EXPECT_THAT(text_of(diagnose(options)), HasSubstr("for 2 iterations: "));
  options.run.snapshot = "latest";
  EXPECT_THAT(only(diagnose(options), FindingKind::warning).text, HasSubstr("nothing is left to do"));
  options.run.snapshot = path("run/s_iter_3.solverstate");
  EXPECT_THAT(only(diagnose(options), FindingKind::error).text, HasSubstr("s_iter_3.solverstate"));
  EXPECT_EQ(file("run/s_iter_4.caffemodel").size(),
            std::filesystem::file_size(path("run/s_iter_4.caffemodel")));
}

TEST_F(Doctor, WarningsThatTheRunWouldLog) {
  FLAGS_minloglevel = google::INFO;
  set_log_sink(
      [](Severity, const std::string& message, const std::source_location&) { LOG(WARNING) << message; });
  const Diagnosis diagnosis = with_data("default_forward_type: FLOAT16 " + lmdb_source());
  set_log_sink(nullptr);
  FLAGS_minloglevel = google::FATAL;
  const Finding found = only(diagnosis, FindingKind::warning);
  EXPECT_EQ(found.topic, "log");
  EXPECT_THAT(found.text, HasSubstr("--precision chooses the number format"));
}

TEST_F(Doctor, StopsWhenAsked) {
  SignalFlags signals;
  signals.stop = true;
  DoctorOptions options = doctor();
  options.run.signals = &signals;
  const Diagnosis diagnosis = diagnose(options);
  EXPECT_THAT(only(diagnosis, FindingKind::warning).text,
              HasSubstr("stopped before everything was looked at"));
  EXPECT_EQ(figure(diagnosis, "time", "seconds"), "");
}

/// A plan of the batch that is called the largest fits, and one of a few more does not.
TEST_F(Doctor, TheLargestBatchFits) {
  TrainOptions options = this->options(2);
  doctor::Findings findings;
  const doctor::Nets nets(options, findings);
  ASSERT_TRUE(nets.complete());
  std::string why;
  for (const std::int64_t bytes :
       {std::int64_t{100'000}, std::int64_t{1'000'000}, std::int64_t{50'000'000}}) {
    const auto batch = nets.largest_batch(bytes, 0, why);
    ASSERT_TRUE(batch) << why;
    const auto needs = [&](std::int64_t samples) {
      TrainOptions other = options;
      auto& net = *other.solver.nets.mutable_net_param();
      net.mutable_layer(0)->mutable_data_param()->set_batch_size(static_cast<std::uint32_t>(samples));
      doctor::Findings ignored;
      const doctor::Nets built(other, ignored);
      // The data sets of the test nets, which share the file, grow along: only the train net counts here.
      return nets.fixed_bytes() + nets.activation_bytes() - nets.train().net->plan().bytes +
             built.train().net->plan().bytes;
    };
    EXPECT_LE(needs(*batch), bytes) << *batch;
    EXPECT_GT(needs(*batch + *batch / 16 + 2), bytes) << *batch;
  }
  EXPECT_EQ(nets.largest_batch(1000, 0, why), 0);
}

TEST(DoctorCounts, TestsAndSnapshotsOfARun) {
  SolverSettings solver;
  solver.max_iter = 10;
  solver.test.batches = {1};
  solver.test.interval = 5;
  EXPECT_EQ(doctor::tests_of(solver, 0), 3);  // 0, 5, 10
  solver.test.initialization = false;
  EXPECT_EQ(doctor::tests_of(solver, 0), 2);
  EXPECT_EQ(doctor::tests_of(solver, 5), 2);  // 5 again, and 10
  EXPECT_EQ(doctor::tests_of(solver, 6), 1);
  solver.test.interval = 0;
  EXPECT_EQ(doctor::tests_of(solver, 0), 0);
  solver.snapshot.interval = 4;
  EXPECT_EQ(doctor::snapshots_of(solver, 0), 3);  // 4, 8, 10
  EXPECT_EQ(doctor::snapshots_of(solver, 8), 1);
  solver.snapshot.interval = 5;
  EXPECT_EQ(doctor::snapshots_of(solver, 0), 2);
  solver.snapshot.interval = 0;
  EXPECT_EQ(doctor::snapshots_of(solver, 0), 1);
  solver.snapshot.after_train = false;
  EXPECT_EQ(doctor::snapshots_of(solver, 0), 0);
  EXPECT_EQ(doctor::snapshots_of(solver, 10), 0);
}

/// The counts are those of real runs.
TEST_F(Doctor, CountsAsARunDoes) {
  for (const char* more :
       {"max_iter: 5 test_interval: 2 test_iter: 24 snapshot: 2",
        "max_iter: 4 test_interval: 2 test_iter: 24 test_initialization: false snapshot: 3",
        "max_iter: 3 snapshot_after_train: false snapshot: 1", "max_iter: 3 snapshot_before_train: true"}) {
    std::filesystem::remove_all(path("run"));
    write("solver", solver_for("net", more));
    ASSERT_EQ(train_with("solver", {"--cpu=1"}), 0) << file("log");
    const std::string log = file("log");
    const auto lines = [&](const std::string& words) {
      std::int64_t count = 0;
      for (std::size_t at = 0; (at = log.find(words, at)) != std::string::npos; ++at) ++count;
      return count;
    };
    const SolverSettings solver = load_solver(path("solver"));
    EXPECT_EQ(doctor::tests_of(solver, 0), lines("Testing net (#0)")) << more;
    EXPECT_EQ(doctor::snapshots_of(solver, 0), lines("Snapshotting solver state")) << more;
  }
}

TEST(DoctorOrder, SortedOrNot) {
  std::vector<double> sorted, mixed, single(100, 3);
  for (int i = 0; i < 200; ++i) sorted.push_back(i / 50), mixed.push_back(i % 7);
  EXPECT_TRUE(doctor::looks_sorted(sorted, 10));
  EXPECT_TRUE(doctor::looks_sorted(sorted, 1)) << "small batches are looked at eight at a time";
  EXPECT_FALSE(doctor::looks_sorted(mixed, 10));
  EXPECT_FALSE(doctor::looks_sorted({1, 1, 1}, 10)) << "too few to tell";
}

TEST(DoctorText, Numbers) {
  EXPECT_EQ(doctor::bytes_text(0), "0 bytes");
  EXPECT_EQ(doctor::bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(doctor::bytes_text(20.0 * (1 << 30)), "20 GiB");
  EXPECT_EQ(doctor::seconds_text(0.0123), "12 ms");
  EXPECT_EQ(doctor::seconds_text(75), "75 s");
  EXPECT_EQ(doctor::seconds_text(600), "10 min");
  EXPECT_EQ(doctor::seconds_text(9000), "2.5 h");
  EXPECT_EQ(doctor::seconds_text(86400 * 3.5), "3.5 days");
}

TEST(LogCapture, KeepsWarningsOnceAndNothingElse) {
  const int level = std::exchange(FLAGS_minloglevel, google::INFO);
  LogCapture capture;
  LOG(INFO) << "nothing to keep";
  LOG(WARNING) << "keep this";
  LOG(WARNING) << "keep this";
  LOG(ERROR) << "and this";
  EXPECT_THAT(capture.take(), testing::ElementsAre("keep this", "and this"));
  EXPECT_THAT(capture.take(), IsEmpty());
  FLAGS_minloglevel = level;
}

}  // namespace
}  // namespace banyan
