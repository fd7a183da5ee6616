// The protocol's state, line by line: what a client says, and what it is answered.
#include "mvm/mcp/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/mcp/tools.h"

namespace mvm::mcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Protocols : public testing::Test {
 protected:
  // What the client is told; lines, in one string.
  std::string say(std::string_view line) {
    step_ = protocol_.take(line);
    return told();
  }
  std::string told() {
    std::string out = protocol_.output();
    protocol_.clear_output();
    return out;
  }
  // The same, as the one document that it is.
  json::Value answer(std::string_view line) { return json::parse(say(line), "the answer"); }
  int code(std::string_view line) { return answer(line)["error"]["code"].get<int>(); }
  void initialize(std::string_view revision = "2025-06-18") {
    say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
        std::string(revision) + R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
    EXPECT_EQ(say(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"), "");
  }
  static std::string call(std::string_view id, std::string_view extra = "") {
    return R"({"jsonrpc":"2.0","id":)" + std::string(id) +
           R"(,"method":"tools/call","params":{"name":"run","arguments":{"argv":["true"]})" +
           std::string(extra) + "}}";
  }
  static ToolResult result() { return {{{"status", "ok"}}, false}; }

  Protocol protocol_{tool_list(), {"1.2.3", "be good"}};
  Step step_;
};

TEST_F(Protocols, AgreesOnTheRevisionThatTheClientAsksForElseOnTheNewest) {
  const std::pair<const char*, const char*> revisions[] = {
      {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
      {"2025-11-25", "2025-11-25"}, {"2024-10-07", "2025-11-25"}, {"2026-07-28", "2025-11-25"}};
  for (const auto& [asked, given] : revisions) {
    protocol_ = Protocol(tool_list(), {"1.2.3", "be good"});
    const auto got =
        answer(R"({"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":")" +
               std::string(asked) + R"(","unknown":{"is":["ignored"]}}})");
    EXPECT_EQ(got["id"], "a");
    EXPECT_EQ(got["result"]["protocolVersion"], given);
    EXPECT_EQ(got["result"]["serverInfo"]["name"], "mvm");
    EXPECT_EQ(got["result"]["serverInfo"]["version"], "1.2.3");
    EXPECT_EQ(got["result"]["instructions"], "be good");
    EXPECT_TRUE(got["result"]["capabilities"].contains("tools"));
    EXPECT_EQ(got["result"]["capabilities"].size(), 1U);
  }
}

TEST_F(Protocols, RefusesWhatIsNoRequestWithTheCodesOfJsonRpc) {
  initialize();
  const std::pair<const char*, int> table[] = {
      {"{", -32700},
      {"nonsense", -32700},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32700},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700},
      {R"({"jsonrpc":"2.0","id":1e999,"method":"ping"})", -32700},
      {"7", -32600},
      {"null", -32600},
      {"\"ping\"", -32600},
      {"[]", -32600},
      {R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", -32600},
      {"{}", -32600},
      {R"({"id":1,"method":"ping"})", -32600},
      {R"({"jsonrpc":"1.0","id":1,"method":"ping"})", -32600},
      {R"({"jsonrpc":2.0,"id":1,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":1})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":7})", -32600},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":true,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":{},"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":[1],"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":"notifications/initialized"})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":""})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":[]}})",
       -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})",
       -32600},
  };
  for (const auto& [line, wanted] : table) {
    EXPECT_EQ(code(line), wanted) << line;
    EXPECT_THAT(step_.start, IsEmpty()) << line;
  }
}

TEST_F(Protocols, BoundsDepthSizeAndIds) {
  initialize();
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":)" + std::string(100, '[') +
                 std::string(100, ']') + "}"),
            -32700);
  std::string many = "[0";
  for (int i = 0; i < 70'000; ++i) many += ",0";
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":)" + many + "]}}"),
            -32700);
  EXPECT_EQ(answer(R"({"jsonrpc":"2.0","id":")" + std::string(kMaxToken, 'a') +
                   R"(","method":"ping"})")["id"],
            std::string(kMaxToken, 'a'));
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":")" + std::string(kMaxToken + 1, 'a') +
                 R"(","method":"ping"})"),
            -32600);
  protocol_.take_too_long();
  EXPECT_THAT(told(), HasSubstr("-32700"));
}

TEST_F(Protocols, AnswersUnderTheVeryId) {
  for (const char* id : {"0", "-1", "18446744073709551615", "-9223372036854775808", "\"\"",
                         "\"a\\nb\"", "\"7\"", "1.5", "\"ü\""})
    EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":)" + std::string(id) + R"(,"method":"ping"})"),
              R"({"jsonrpc":"2.0","id":)" + std::string(id) + R"(,"result":{}})" + "\n");
}

TEST_F(Protocols, IsSilentToNotificationsAnswersAndEmptyLines) {
  initialize();
  for (const char* line :
       {"", " \t\r", R"({"jsonrpc":"2.0","method":"ping"})",
        R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"run","arguments":{}}})",
        R"({"jsonrpc":"2.0","method":"notifications/unheard_of","params":{}})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled"})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}})",
        R"({"jsonrpc":"2.0","id":3,"result":{}})",
        R"({"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"x"}})"}) {
    EXPECT_EQ(say(line), "") << line;
    EXPECT_THAT(step_.start, IsEmpty()) << line;
    EXPECT_THAT(step_.cancel, IsEmpty()) << line;
  }
}

TEST_F(Protocols, WantsToBeInitializedBeforeToolsAreUsed) {
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"), -32600);
  EXPECT_EQ(code(call("1")), -32600);
  EXPECT_THAT(step_.start, IsEmpty());
  // As of a client that first looks whether this is a server of 2026-07-28.
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})"), -32601);
}

TEST_F(Protocols, ListsToolsWithWhatTheRevisionHas) {
  const auto tools = [&](const char* revision) {
    protocol_ = Protocol(tool_list(), {});
    initialize(revision);
    return answer(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}})")
        .at("result")
        .at("tools");
  };
  for (const char* revision : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    const auto list = tools(revision);
    std::vector<std::string> names;
    for (const auto& tool : list) {
      names.push_back(tool.at("name"));
      EXPECT_EQ(tool.at("inputSchema").at("type"), "object");
      EXPECT_EQ(tool.contains("annotations"), revision != std::string("2024-11-05"));
      EXPECT_EQ(tool.contains("outputSchema"), revision >= std::string("2025-06-18"));
      EXPECT_EQ(tool.contains("title"), revision >= std::string("2025-06-18"));
    }
    EXPECT_THAT(names,
                ElementsAre("run", "read_file", "write_file", "list_files", "network_refusals"));
  }
}

TEST_F(Protocols, StartsACallAndAnswersWithItsResultTwice) {
  initialize();
  EXPECT_EQ(say(call("\"x\"")), "");
  ASSERT_EQ(step_.start.size(), 1U);
  EXPECT_EQ(step_.start[0].tool, "run");
  EXPECT_EQ(json::dump(step_.start[0].arguments), R"({"argv":["true"]})");
  EXPECT_EQ(protocol_.running(), 1U);
  protocol_.finish(step_.start[0].number, {{{"status", "ok"}, {"stdout", "a\nb"}}, false});
  EXPECT_EQ(told(), R"({"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":)"
                    R"("{\"status\":\"ok\",\"stdout\":\"a\\nb\"}"}],"structuredContent":)"
                    R"({"status":"ok","stdout":"a\nb"},"isError":false}})"
                    "\n");
  EXPECT_EQ(protocol_.running(), 0U);
}

TEST_F(Protocols, GivesOldClientsTextAlone) {
  initialize("2025-03-26");
  say(call("1"));
  protocol_.finish(step_.start[0].number, {{{"status", "invalid"}}, true});
  const auto got = json::parse(told(), "");
  EXPECT_FALSE(got["result"].contains("structuredContent"));
  EXPECT_EQ(got["result"]["content"][0]["text"], R"({"status":"invalid"})");
  EXPECT_EQ(got["result"]["isError"], true);
}

TEST_F(Protocols, RefusesAnIdThatIsInUseUnderNoId) {
  initialize();
  say(call("5"));
  const uint64_t number = step_.start[0].number;
  for (const std::string& again :
       {call("5"), call("5.0"), std::string(R"({"jsonrpc":"2.0","id":5,"method":"ping"})")}) {
    const auto got = answer(again);
    EXPECT_TRUE(got["id"].is_null());
    EXPECT_EQ(got["error"]["code"], -32600);
    EXPECT_THAT(step_.start, IsEmpty());
  }
  EXPECT_EQ(say(call("\"5\"")), "");  // another one
  protocol_.finish(number, result());
  told();
  EXPECT_EQ(say(call("5")), "");
  EXPECT_EQ(step_.start.size(), 1U);
}

TEST_F(Protocols, CancelsOnceAndAnswersNoMore) {
  initialize();
  say(call("1"));
  const uint64_t first = step_.start[0].number;
  say(call("2"));
  const uint64_t second = step_.start[0].number;
  const char* cancel =
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}})";
  EXPECT_EQ(say(cancel), "");
  EXPECT_THAT(step_.cancel, ElementsAre(first));
  EXPECT_EQ(say(cancel), "");
  EXPECT_THAT(step_.cancel, IsEmpty());
  protocol_.finish(first, result());
  EXPECT_EQ(told(), "");
  protocol_.finish(second, result());
  EXPECT_THAT(told(), HasSubstr("\"id\":2"));
}

TEST_F(Protocols, TellsProgressToWhoeverGaveAToken) {
  initialize();
  say(call("1", R"(,"_meta":{"progressToken":"t"})"));
  const uint64_t first = step_.start[0].number;
  say(call("2", R"(,"_meta":{"progressToken":7.5})"));
  const uint64_t second = step_.start[0].number;
  say(call("3"));
  protocol_.progress(step_.start[0].number, 1);
  EXPECT_EQ(told(), "");
  protocol_.progress(first, 5.25);
  EXPECT_EQ(told(),
            R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t",)"
            R"("progress":5.25,"message":"still running, seconds: 5"}})"
            "\n");
  protocol_.progress(second, 1);
  EXPECT_THAT(told(), HasSubstr("\"progressToken\":7.5"));
  say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
  protocol_.progress(first, 6);
  EXPECT_EQ(told(), "");
  protocol_.finish(second, result());
  told();
  protocol_.progress(second, 6);
  EXPECT_EQ(told(), "");
}

TEST_F(Protocols, LeavesATokenThatIsNoneAlone) {
  initialize();
  for (const char* meta : {R"(,"_meta":{"progressToken":{}})", R"(,"_meta":{"progressToken":null})",
                           R"(,"_meta":7)"}) {
    say(call("1", meta));
    ASSERT_EQ(step_.start.size(), 1U) << meta;
    protocol_.progress(step_.start[0].number, 1);
    EXPECT_EQ(told(), "") << meta;
    protocol_.finish(step_.start[0].number, result());
    told();
  }
}

// ---- batches: 2025-03-26 alone ------------------------------------------------------------------

class Batches : public Protocols {
 protected:
  Batches() { initialize("2025-03-26"); }
};

TEST_F(Batches, AreAnsweredAsOneWhenTheLastOfThemIs) {
  EXPECT_EQ(say("[" + call("1") + R"(,{"jsonrpc":"2.0","id":2,"method":"ping"},)" + call("3") +
                R"(,{"jsonrpc":"2.0","method":"notifications/initialized"},7])"),
            "");
  ASSERT_EQ(step_.start.size(), 2U);
  protocol_.finish(step_.start[1].number, result());
  EXPECT_EQ(told(), "");
  protocol_.finish(step_.start[0].number, result());
  const auto got = json::parse(told(), "");
  std::vector<std::string> ids;
  for (const auto& each : got) ids.push_back(json::dump(each["id"]));
  EXPECT_THAT(ids, ElementsAre("2", "null", "3", "1"));
}

TEST_F(Batches, OfNotificationsHaveNoAnswer) {
  EXPECT_EQ(say(R"([{"jsonrpc":"2.0","method":"notifications/initialized"}])"), "");
}

TEST_F(Batches, GoOnWithoutWhatIsCancelled) {
  say("[" + call("1") + "," + call("2") + "]");
  const auto started = step_.start;
  say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
  protocol_.finish(started[0].number, result());
  protocol_.finish(started[1].number, result());
  const auto got = json::parse(told(), "");
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0]["id"], 2);
  say("[" + call("1") + "]");
  say(R"([{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}])");
  protocol_.finish(step_.cancel.at(0), result());
  EXPECT_EQ(told(), "");
}

TEST_F(Batches, AreBoundedAndNeverEmpty) {
  EXPECT_EQ(code("[]"), -32600);
  std::string many;
  for (size_t i = 0; i < kMaxBatch; ++i)
    many += (many.empty() ? "" : ",") + std::string(R"({"jsonrpc":"2.0","id":)") +
            std::to_string(i) + R"(,"method":"ping"})";
  EXPECT_EQ(answer("[" + many + "]").size(), kMaxBatch);
  EXPECT_EQ(code("[" + many + R"(,{"jsonrpc":"2.0","method":"x"}])"), -32600);
}

TEST_F(Batches, RefuseAnIdTwice) {
  const std::string one = call("1");
  say("[" + one + "," + one + "]");
  ASSERT_EQ(step_.start.size(), 1U);
  protocol_.finish(step_.start[0].number, result());
  const auto got = json::parse(told(), "");
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0]["error"]["code"], -32600);
}

TEST_F(Batches, HaveNoInitializeInThem) {
  EXPECT_EQ(answer(R"([{"jsonrpc":"2.0","id":1,"method":"initialize","params":)"
                   R"({"protocolVersion":"2025-06-18"}}])")[0]["error"]["code"],
            -32600);
}

}
}
