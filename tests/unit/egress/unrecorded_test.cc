// What cannot be put on record does not happen, beginning with the very first that cannot.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPublic = "93.184.216.34";

class Unrecorded : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    resolver_.add("new.example", kPublic);
    server_ =
        &serve({"python3", "-u", "-m", "http.server", "--bind", kPublic, "80"}, {ip(kPublic), 80});
    allow_host("api.example");
    allow_host("new.example");
    start_proxy();
  }
  std::string curl(const std::string& host) {
    const auto exit = guest({"curl", "-sS", "-i", "-m", "20", "http://" + host + "/"});
    return exit.out + exit.err;
  }
  Program* server_ = nullptr;
};

TEST_F(Unrecorded, NoRequestLeavesAndNoNameIsTold) {
  EXPECT_THAT(curl("api.example"), HasSubstr("200 OK"));
  recordable_ = false;
  // The name is known to nobody in the guest, and is not told.
  EXPECT_THAT(curl("new.example"), HasSubstr("not resolve"));
  // An address that was told before: the request is refused.
  const auto pinned = guest({"curl", "-sS", "-i", "-m", "20", "--resolve",
                             std::string("api.example:80:") + kPublic, "http://api.example/again"});
  EXPECT_THAT(pinned.out, AllOf(HasSubstr("503"), HasSubstr("not_recorded"))) << pinned.err;
  recordable_ = true;
  EXPECT_THAT(curl("new.example"), HasSubstr("200 OK"));
  const std::string seen = server_->exit().err;
  EXPECT_THAT(seen, HasSubstr("GET / "));
  EXPECT_EQ(seen.find("/again"), std::string::npos) << seen;
}

}
}
