// What calls may ask for: arguments judged, and the schemas that a model is shown for them.
#include "mvm/mcp/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::mcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Call parsed(std::string_view tool, std::string_view arguments) {
  return parse_call(tool, json::parse(arguments, "arguments"));
}
std::string complaint(std::string_view tool, std::string_view arguments) {
  try {
    parsed(tool, arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    return error.message();
  }
  return "none";
}

TEST(Tools, RunTakesWhatItsSchemaNames) {
  const auto call = std::get<RunCall>(
      parsed("run", R"({"argv":["sh","-c","cat; echo $A"],"cwd":"/work","env":{"A":"1","B":""},)"
                    R"("stdin":"in\n","timeout_seconds":30.0,"max_output_bytes":1000})"));
  EXPECT_THAT(call.request.argv, ElementsAre("sh", "-c", "cat; echo $A"));
  EXPECT_EQ(call.request.cwd, "/work");
  EXPECT_THAT(call.request.env, ElementsAre(Pair("A", "1"), Pair("B", "")));
  EXPECT_EQ(call.input, "in\n");
  EXPECT_TRUE(call.request.stdin_open);
  EXPECT_EQ(call.request.timeout, std::chrono::seconds(30));
  EXPECT_EQ(call.keep, 1000U);
}

TEST(Tools, RunHasATimeOutAndABoundOfOutputInAnyCase) {
  const auto call = std::get<RunCall>(parsed("run", R"({"argv":["true"],"cwd":null,"env":null})"));
  EXPECT_EQ(call.request.timeout, std::chrono::seconds(kDefaultTimeout));
  EXPECT_EQ(call.keep, kDefaultOutput);
  EXPECT_FALSE(call.request.stdin_open);
  EXPECT_FALSE(call.request.detach);
  EXPECT_FALSE(call.request.tty);
}

TEST(Tools, SayWhatIsWrongWithArguments) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"run", "{}", "argv is missing"},
      {"run", R"({"argv":"ls -l"})", "argv must be an array"},
      {"run", R"({"argv":[]})", "argv must be an array"},
      {"run", R"({"argv":["a",1]})", "strings alone"},
      {"run", R"({"argv":["a","b\u0000c"]})", "NUL"},
      {"run", R"({"argv":[""]})", "program's name"},
      {"run", R"({"argv":["a"],"timeout_seconds":0})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"timeout_seconds":3601})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"timeout_seconds":1.5})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"timeout_seconds":-1})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"timeout_seconds":"9"})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"timeout_seconds":1e300})", "from 1 to 3600"},
      {"run", R"({"argv":["a"],"max_output_bytes":262145})", "from 1 to 262144"},
      {"run", R"({"argv":["a"],"cwd":"work"})", "absolute path"},
      {"run", R"({"argv":["a"],"cwd":7})", "cwd must be a string"},
      {"run", R"({"argv":["a"],"env":["A=1"]})", "env must be an object"},
      {"run", R"({"argv":["a"],"env":{"A=":"1"}})", "A="},
      {"run", R"({"argv":["a"],"env":{"":"1"}})", "name"},
      {"run", R"({"argv":["a"],"env":{"A":1}})", "env.A must be a string"},
      {"run", R"({"argv":["a"],"env":{"A":"\u0000"}})", "NUL"},
      {"run", R"({"argv":["a"],"stdin":7})", "stdin must be a string"},
      {"run", R"({"argv":["a"],"timeout":30})", "no argument timeout"},
      {"run", R"({"argv":["a"],"user":"root"})", "no argument user"},
      {"read_file", "{}", "path is missing"},
      {"read_file", R"({"path":"a"})", "absolute path"},
      {"read_file", R"({"path":"/a\u0000b"})", "absolute path"},
      {"read_file", R"({"path":"/a","ofset":7})", "do you mean offset?"},
      {"read_file", R"({"path":"/a","limit":0})", "from 1 to 262144"},
      {"read_file", R"({"path":"/a","offset":-1})", "from 0 to"},
      {"write_file", R"({"path":"/a"})", "content is missing"},
      {"write_file", R"({"path":"/a","content":7})", "content must be a string"},
      {"write_file", R"({"path":"/a","content":"","encoding":"latin1"})", "utf-8 or base64"},
      {"write_file", R"({"path":"/a","content":"%","encoding":"base64"})", "not base64"},
      {"write_file", R"({"path":"/a","content":"","mode":"rw"})", "octal"},
      {"write_file", R"({"path":"/a","content":"","mode":"07777"})", "octal"},
      {"write_file", R"({"path":"/a","content":"","mode":420})", "mode must be a string"},
      {"list_files", R"({"path":"/a","limit":2001})", "from 1 to 2000"},
      {"network_refusals", R"({"run_id":7})", "run_id must be a string"},
  };
  for (const auto& [tool, arguments, wanted] : table)
    EXPECT_THAT(complaint(tool, arguments), HasSubstr(wanted)) << tool << arguments;
}

TEST(Tools, BoundWhatIsWritten) {
  const auto write = [](const std::string& content, const char* encoding) {
    return json::Value{{"path", "/a"}, {"content", content}, {"encoding", encoding}};
  };
  const std::string most(kMaxContent, 'x');
  EXPECT_EQ(std::get<WriteCall>(parse_call("write_file", write(most, "utf-8"))).content, most);
  EXPECT_THROW(parse_call("write_file", write(most + "x", "utf-8")), Error);
  const std::string coded(kMaxContent / 3 * 4 + 4, 'A');
  EXPECT_THROW(parse_call("write_file", write(coded, "base64")), Error);
  EXPECT_EQ(std::get<WriteCall>(parse_call("write_file", write("AP8=", "base64"))).content,
            std::string("\0\xff", 2));
  EXPECT_THAT(
      complaint("run", R"({"argv":["a"],"stdin":")" + std::string(kMaxInput + 1, 'x') + "\"}"),
      HasSubstr("larger than"));
  EXPECT_THAT(complaint("read_file", R"({"path":"/)" + std::string(proto::kMaxPath, 'x') + "\"}"),
              HasSubstr("larger than"));
}

TEST(Tools, WriteTakesModesOfThreeAndFourDigits) {
  for (const auto& [text, mode] : {std::pair("644", 0644U), std::pair("0755", 0755U)})
    EXPECT_EQ(std::get<WriteCall>(parsed("write_file", R"({"path":"/a","content":"","mode":")" +
                                                           std::string(text) + "\"}"))
                  .mode,
              mode);
}

// A model is told the bounds that hold, and each argument that there is.
TEST(Tools, SchemasSayWhatIsEnforced) {
  for (const auto& tool : tool_list()) {
    const std::string name = tool.at("name");
    const auto& schema = tool.at("inputSchema");
    EXPECT_EQ(schema.at("additionalProperties"), false);
    json::Value good = json::Value::object();
    for (const auto& [key, property] : schema.at("properties").items()) {
      if (property.at("type") == "integer") good[key] = property.at("minimum").get<uint64_t>();
      if (property.at("type") == "array") good[key] = {"x"};
      if (property.at("type") == "object") good[key] = {{"X", "y"}};
      if (property.at("type") == "string") good[key] = "/x";
      if (property.contains("enum")) good[key] = property.at("enum").at(0).get<std::string>();
      if (property.contains("pattern")) good[key] = "644";
    }
    EXPECT_NO_THROW(parse_call(name, good)) << name;
    for (const auto& [key, property] : schema.at("properties").items()) {
      if (property.at("type") != "integer") continue;
      for (const auto& [bound, beyond] : {std::pair("minimum", -1.0), std::pair("maximum", 1.0)}) {
        json::Value call = good;
        call[key] = property.at(bound).get<uint64_t>();
        EXPECT_NO_THROW(parse_call(name, call)) << name << "." << key;
        call[key] = property.at(bound).get<double>() + beyond;
        EXPECT_THROW(parse_call(name, call), Error) << name << "." << key;
      }
    }
    for (const auto& key : schema.at("required")) {
      json::Value call = good;
      call.erase(key.get<std::string>());
      EXPECT_THROW(parse_call(name, call), Error) << name;
    }
    EXPECT_TRUE(tool.at("annotations").contains("readOnlyHint"));
    EXPECT_EQ(tool.at("outputSchema").at("required").size(), 2U);
  }
}

}
}
