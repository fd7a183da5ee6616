// Keys of every provider that the table knows. Each sample is written from what the provider says
// of its keys, or from a key that it shows; none is anybody's. They are put together here, so that
// programs that look for keys in repositories find none in this file.

#include "../../../src/protect/api_keys.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/protect/scanner.h"

namespace mvm::protect {
namespace {

// `length` characters that are plainly made up, of the alphabet of `of`.
std::string made_up(std::string_view of, size_t length) {
  std::string out;
  while (out.size() < length) out += of;
  return out.substr(0, length);
}
std::string mixed(size_t n) { return made_up("Fake0Sample1Key2MadeUp3", n); }
std::string lower(size_t n) { return made_up("fake0sample1key2madeup3", n); }
std::string upper(size_t n) { return made_up("FAKE2SAMPLE3KEY4MADEUP5", n); }
std::string hex(size_t n) { return made_up("fade0cafe1bead2babe3", n); }
std::string digits(size_t n) { return made_up("1234567890", n); }
std::string uuid() { return hex(8) + "-" + hex(4) + "-4" + hex(3) + "-a" + hex(3) + "-" + hex(12); }

struct Sample {
  std::string_view provider;
  std::string key;
};

// With a form of their own.
std::vector<Sample> formed() {
  const std::string github = "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17";  // its checksum fits
  std::vector<Sample> out{
      {"adafruit", "aio_" + mixed(28)},
      {"adobe", "p8e-" + lower(32)},
      {"age", "AGE-SECRET-KEY-1" + made_up("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)},
      {"airtable", "pat" + mixed(14) + "." + hex(64)},
      {"alibaba", "LTAI" + mixed(20)},
      {"anthropic", "sk-ant-" + ("api03-" + mixed(93)) + "AA"},
      {"apify", "apify_api_" + mixed(36)},
      {"artifactory", "AKCp" + mixed(69)},
      {"atlassian", "ATATT3" + mixed(100) + "-_" + mixed(76) + "=" + made_up("FA0E1DC2", 8)},
      {"atlassian", "ATCTT3" + mixed(100) + "-_" + mixed(76) + "=" + made_up("FA0E1DC2", 8)},
      {"aws_bedrock", "ABSK" + ("QmVkcm9ja0FQSUtleS" + mixed(110)) + "="},
      {"brevo", "xkeysib-" + hex(64) + "-" + mixed(16)},
      {"buildkite", "bkua_" + hex(40)},
      {"circleci", "CCIPAT_" + mixed(22) + "_" + hex(40)},
      {"clojars", "CLOJARS_" + lower(60)},
      {"contentful", "CFPAT-" + mixed(43)},
      {"crates_io", "cio" + mixed(32)},
      {"databricks", "dapi" + hex(32)},
      {"databricks", "dapi" + hex(32) + "-2"},
      {"doppler", "dp.pt." + mixed(43)},
      {"doppler", "dp.st." + mixed(43)},
      {"doppler", "dp.st.dev." + mixed(43)},
      {"dropbox", "sl." + mixed(136)},
      {"dropbox", "sl.u." + mixed(1200)},
      {"dynatrace", "dt0c01." + upper(24) + "." + upper(64)},
      {"elevenlabs", "sk_" + hex(48)},
      {"facebook", "EAA" + mixed(180)},
      {"figma", "figd_" + mixed(36) + "-_" + mixed(2)},
      {"fireworks", "fw_" + mixed(24)},
      {"fly_io", "fo1_" + mixed(43)},
      {"fly_io", "fm2_" + mixed(160)},
      {"flutterwave", "FLWSECK_TEST-" + hex(32) + "-X"},
      {"flutterwave", "FLWSECK-" + hex(32) + "-X"},
      {"frameio", "fio-u-" + mixed(40) + "-_" + mixed(22)},
      {"github", std::string("github_pat_") + mixed(22) + "_" + mixed(59)},
      {"gitlab", "glpat-" + mixed(20)},
      {"gitlab", "gldt-" + mixed(20)},
      {"gitlab", "glrt-" + mixed(20)},
      {"gitlab", "glptt-" + hex(40)},
      {"gitlab", "glagent-" + mixed(50)},
      {"gitlab", "gloas-" + hex(64)},
      {"google", "AIza" + ("Sy" + mixed(33))},
      {"google_oauth", "GOCSPX-" + mixed(28)},
      {"google_oauth", "ya29." + mixed(150)},
      {"grafana", "glsa_" + mixed(32) + "_" + hex(8)},
      {"grafana", "glc_" + ("eyJ" + mixed(120))},
      {"groq", "gsk_" + mixed(52)},
      {"harness", "pat." + mixed(22) + "." + hex(24) + "." + mixed(20)},
      {"hashicorp_vault", "hvs." + mixed(95)},
      {"hashicorp_vault", "hvb." + mixed(140)},
      {"hubspot", "pat-na1-" + uuid()},
      {"hubspot", "pat-eu1-" + uuid()},
      {"huggingface", "hf_" + mixed(34)},
      {"infracost", "ico-" + mixed(32)},
      {"intra42", "s-s4t2ud-" + hex(64)},
      {"langfuse", "sk-lf-" + uuid()},
      {"langsmith", "lsv2_pt_" + hex(32) + "_" + hex(10)},
      {"langsmith", "lsv2_sk_" + hex(32) + "_" + hex(10)},
      {"linear", "lin_api_" + mixed(40)},
      {"mailgun", "key-" + hex(32)},
      {"mapbox", "sk.eyJ" + mixed(60) + "." + mixed(22)},
      {"netlify", "nfp_" + mixed(36)},
      {"new_relic", "NRAK-" + upper(27)},
      {"new_relic", "NRII-" + mixed(32)},
      {"notion", "secret_" + mixed(43)},
      {"notion", "ntn_" + digits(11) + mixed(35)},
      {"npm", "npm_" + github},
      {"nuget", "oy2" + lower(43)},
      {"nvidia", "nvapi-" + mixed(64)},
      {"1password", "ops_eyJ" + mixed(300)},
      {"openai", "sk-proj-" + mixed(74) + "T3BlbkFJ" + mixed(74)},
      {"openai", "sk-svcacct-" + mixed(74) + "T3BlbkFJ" + mixed(74)},
      {"openai", "sk-admin-" + mixed(74) + "T3BlbkFJ" + mixed(74)},
      {"openai", "sk-" + mixed(20) + "T3BlbkFJ" + mixed(20)},
      {"openrouter", "sk-or-v1-" + hex(64)},
      {"perplexity", "pplx-" + mixed(48)},
      {"pinecone", "pcsk_" + mixed(6) + "_" + mixed(63)},
      {"plaid", "access-sandbox-" + uuid()},
      {"plaid", "access-production-" + uuid()},
      {"planetscale", "pscale_tkn_" + mixed(43)},
      {"planetscale", "pscale_pw_" + mixed(43)},
      {"planetscale", "pscale_oauth_" + mixed(43)},
      {"posthog", "phc_" + mixed(43)},
      {"posthog", "phx_" + mixed(43)},
      {"postman", "PMAK-" + hex(24) + "-" + hex(34)},
      {"prefect", "pnu_" + mixed(36)},
      {"pulumi", "pul-" + hex(40)},
      {"pypi", "pypi-AgEI" + ("cHlwaS5vcmc" + mixed(120))},
      {"razorpay", "rzp_live_" + mixed(14)},
      {"razorpay", "rzp_test_" + mixed(14)},
      {"readme", "rdme_" + lower(70)},
      {"render", "rnd_" + mixed(32)},
      {"replicate", "r8_" + mixed(37)},
      {"resend", "re_" + mixed(8) + "_" + mixed(24)},
      {"rubygems", "rubygems_" + hex(48)},
      {"scaleway", "SCW" + upper(17)},
      {"scalingo", "tk-us-" + mixed(48)},
      {"sendgrid", "SG." + mixed(22) + "." + mixed(43)},
      {"sendinblue", "xsmtpsib-" + hex(64) + "-" + mixed(16)},
      {"sentry", "sntrys_eyJ" + mixed(120) + "=_" + mixed(43)},
      {"sentry", "sntryu_" + hex(64)},
      {"slack", "xapp-1-" + ("A" + upper(10)) + "-" + digits(13) + "-" + hex(64)},
      {"slack", "xoxe." + ("xoxp-1-" + mixed(160))},
      {"sourcegraph", "sgp_" + hex(40)},
      {"sourcegraph", "sgp_" + hex(16) + "_" + hex(40)},
      {"square", "sq0atp-" + mixed(22)},
      {"square", "sq0csp-" + mixed(43)},
      {"square", "EAAA" + mixed(60)},
      {"stripe", "whsec_" + mixed(32)},
      {"supabase", "sbp_" + hex(40)},
      {"supabase", "sb_secret_" + mixed(22) + "_" + mixed(8)},
      {"tailscale", "tskey-auth-k" + mixed(10) + "CNTRL-" + mixed(32)},
      {"tailscale", "tskey-api-k" + mixed(10) + "CNTRL-" + mixed(32)},
      {"tavily", "tvly-" + ("dev-" + mixed(32))},
      {"tencent", "AKID" + mixed(32)},
      {"twilio", "AC" + hex(32)},
      {"twilio", "SK" + hex(32)},
      {"twitter", std::string(22, 'A') + mixed(30) + "%2B" + mixed(20) + "%3D" + mixed(40)},
      {"typeform", "tfp_" + mixed(40) + "_" + mixed(18)},
      {"xai", "xai-" + mixed(80)},
      {"yandex", "AQVN" + mixed(35)},
      {"yandex", "t1." + mixed(120) + "." + mixed(86)},
      // Of several parts.
      {"terraform", mixed(14) + ".atlasv1." + mixed(67)},
      {"discord", "MT" + mixed(22) + "." + mixed(6) + "." + mixed(38)},
      {"discord", "https://discord.com/api/webhooks/" + digits(18) + "/" + mixed(68)},
      {"telegram", digits(10) + ":AA" + mixed(33)},
      {"azure", mixed(3) + "8Q~" + mixed(34)},
      {"mailchimp", hex(32) + "-us12"},
      {"slack",
       "https://hooks.slack.com/services/" + ("T" + upper(8)) + "/B" + upper(8) + "/" + mixed(24)},
  };
  for (const char* kind : {"AKIA", "ASIA", "ABIA", "ACCA"})
    out.push_back({"aws", kind + upper(16)});
  out.push_back({"aws", "AKIA" + made_up("FAKESAMPLEKEYMADEUP", 16)});  // without a digit
  for (const char* kind : {"dop", "doo", "dor"})
    out.push_back({"digitalocean", kind + ("_v1_" + hex(64))});
  for (const char* kind : {"dckr_pat_", "dckr_oat_"}) out.push_back({"docker", kind + mixed(27)});
  for (const char* kind : {"duffel_test_", "duffel_live_"})
    out.push_back({"duffel", kind + mixed(43)});
  for (const char* kind : {"EZAK", "EZTK"}) out.push_back({"easypost", kind + mixed(54)});
  for (const char* kind : {"ghp_", "gho_", "ghu_", "ghs_", "ghr_"})
    out.push_back({"github", kind + github});
  for (const char* kind : {"shippo_live_", "shippo_test_"})
    out.push_back({"shippo", kind + hex(40)});
  for (const char* kind : {"shpat_", "shpca_", "shppa_", "shpss_"})
    out.push_back({"shopify", kind + hex(32)});
  for (const char* kind : {"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-"})
    out.push_back({"slack", kind + digits(12) + "-" + digits(12) + "-" + mixed(24)});
  for (const char* kind : {"sk_live_", "sk_test_", "rk_live_", "rk_test_"})
    out.push_back({"stripe", kind + mixed(99)});
  return out;
}

// Known by the name beside them.
struct Labelled {
  std::string_view provider;
  std::string label;
  std::string key;
};
std::vector<Labelled> labelled() {
  return {{"aws", "aws_secret_access_key = ", mixed(20) + "/" + mixed(19)},
          {"azure", "AccountName=made;AccountKey=", mixed(50) + "+" + mixed(35) + "=="},
          {"azure", "AZURE_OPENAI_API_KEY=", lower(32)},
          {"azure", "SharedAccessKeyName=made;SharedAccessKey=", mixed(43) + "="},
          {"algolia", "ALGOLIA_ADMIN_KEY=", hex(32)},
          {"asana", "asana_client_secret: ", lower(32)},
          {"cloudflare", "CLOUDFLARE_API_TOKEN=", mixed(40)},
          {"cohere", "COHERE_API_KEY=", mixed(40)},
          {"coinbase", "coinbase_access_token = ", lower(64)},
          {"confluent", "confluent_secret_key = ", mixed(64)},
          {"datadog", "DATADOG_APP_KEY=", hex(40)},
          {"datadog", "DD_API_KEY=", hex(32)},
          {"datadog", "DD_APP_KEY=", hex(40)},
          {"deepgram", "DEEPGRAM_API_KEY=", hex(40)},
          {"deepseek", "DEEPSEEK_API_KEY=", "sk-" + hex(32)},
          {"fastly", "FASTLY_API_TOKEN=", mixed(32)},
          {"heroku", "HEROKU_API_KEY=", uuid()},
          {"mistral", "MISTRAL_API_KEY=", mixed(32)},
          {"okta", "okta_api_token: ", "00" + mixed(40)},
          {"segment", "segment_write_key: ", mixed(32)},
          {"snyk", "SNYK_TOKEN=", uuid()},
          {"together", "TOGETHER_API_KEY=", hex(64)},
          {"travis", "travis_token: ", mixed(22)},
          {"twilio", "TWILIO_AUTH_TOKEN=", hex(32)},
          {"vercel", "VERCEL_TOKEN=", mixed(24)},
          {"zendesk", "zendesk_secret_key: ", lower(40)}};
}

void expect_found(std::string_view provider, const std::string& before, const std::string& key,
                  const std::string& behind) {
  const std::string text = before + key + behind;
  const auto findings = scan(text);
  ASSERT_EQ(findings.size(), 1U) << text;
  EXPECT_EQ(findings[0].kind, PiiClass::ApiKey) << text;
  EXPECT_EQ(findings[0].detail, provider) << text;
  EXPECT_EQ(text.substr(findings[0].offset, findings[0].length), key);
}

TEST(ApiKeys, OfEveryFormAreFoundAndNamed) {
  std::set<std::string_view> providers;
  for (const Sample& sample : formed()) {
    providers.insert(sample.provider);
    expect_found(sample.provider, "x \"", sample.key, "\" y");
    expect_found(sample.provider, "Use ", sample.key, ", please.");
  }
  for (const Labelled& sample : labelled()) {
    providers.insert(sample.provider);
    expect_found(sample.provider, sample.label, sample.key, "\n");
  }
  EXPECT_GE(providers.size(), 60U);
}

// No row of the table is without a sample.
TEST(ApiKeys, OfEveryRowHaveASample) {
  for (const KeyForm& form : key_forms()) {
    bool any = false;
    for (const Sample& sample : formed())
      any = any || (sample.provider == form.provider && sample.key.starts_with(form.prefix));
    EXPECT_TRUE(any) << form.provider << " " << form.prefix;
  }
  for (const LabelledKey& row : labelled_keys()) {
    bool any = false;
    for (const Labelled& sample : labelled()) {
      std::string label;
      for (const char c : sample.label)
        label += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      any = any || (sample.provider == row.provider && label.find(row.label) != label.npos);
    }
    EXPECT_TRUE(any) << row.provider << " " << row.label;
  }
}

TEST(ApiKeys, OfAWrongLengthAreNone) {
  for (const Sample& sample : {Sample{"", "AKIA" + upper(15)}, Sample{"", "AKIA" + upper(17)},
                               Sample{"", "glptt-" + hex(39)}, Sample{"", "SG." + mixed(22)},
                               Sample{"", "gsk_" + mixed(51)}, Sample{"", "dapi" + hex(31)}})
    for (const Finding& finding : scan("x " + sample.key + " y"))
      EXPECT_NE(finding.kind, PiiClass::ApiKey) << sample.key;
}

}
}
