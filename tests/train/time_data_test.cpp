// `trainer time --data` as a user runs it.
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

class TimeData : public TrainerRun {};

TEST_F(TimeData, TellsTheRatesOfEachLayerThatReads) {
  ASSERT_EQ(run({"time", "--data", "--json", "--cpu=1", "--iterations=3", "--model=" + path("net")}), 0)
      << file("log");
  const std::string log = file("log");
  for (const char* words :
       {"Layer \"images\": LMDB", "source ", "decode ", "augment ", "pipeline ", " per core"})
    EXPECT_THAT(log, HasSubstr(words));
  for (const char* key : {"\"layer\": \"images\"", "\"source_bytes_per_second\": ", "\"decode\": ",
                          "\"pipeline_per_core\": ", "\"threads\": 1"})
    EXPECT_THAT(log, HasSubstr(key));
  EXPECT_EQ(log.find("conv"), std::string::npos) << "the net itself does not run";
}

TEST_F(TimeData, NeedsALayerThatReads) {
  write("made",
        "layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 2 dim: 3 } } }");
  expect_refusal(run({"time", "--data", "--cpu=1", "--model=" + path("made")}),
                 {"--data", "reads a data set", "TRAIN"});
  expect_refusal(run({"time", "--data", "--trace=" + path("t"), "--cpu=1", "--model=" + path("net")}),
                 {"--trace"});
}

}  // namespace
}  // namespace banyan
