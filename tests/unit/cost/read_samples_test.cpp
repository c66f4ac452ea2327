#include "tessera/cost/read_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::cost::read_samples_test {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

SampleFile parse(const std::string& text, const std::string& path = "x.csv",
                 const ReadOptions& options = {}) {
  static const std::vector<DriverName> names =
      driver_names(DataFolders({std::string(TESSERA_SOURCE_DIR) + "/datasets"}));
  ReadOptions with_names = options;
  with_names.driver_names = names;
  return parse_samples(text, path, with_names);
}

void refused(const std::string& text, const std::vector<std::string>& parts,
             const std::string& path = "x.csv", const ReadOptions& options = {}) {
  expect_error(ErrorCode::invalid_argument, parts, [&] { parse(text, path, options); });
}

const std::string kOwn =
    "device,kernel_set,dtype,op,phase,batch,tokens,context,latency_s,source,n,k,num_heads,head_dim,"
    "model,bitwidth\n";

TEST(ReadSamples, OwnSchema) {
  const SampleFile file = parse(kOwn +
                                "T4-16G,vllm,float16,,,,64,,0.1,mine,4096,128,,,,\n"
                                "T4-16G,vllm,float16,,decode,8,1,512,0.2,,,,32,128,,\n"
                                "T4-16G,vllm,,,prefill,8,512,0,0.3,mine,,,,,opt-30b,4\n"
                                "T4-16G,vllm,,,prefill,0,512,0,0,mine,,,,,opt-30b,4\n"
                                "T4-16G,vllm,,,prefill,8,0,0,0,mine,,,,,opt-30b,4\n");
  EXPECT_EQ(file.format, "tessera");
  ASSERT_EQ(file.samples.size(), 3u);
  const OpQuery& gemm = file.samples[0].query;
  EXPECT_EQ(gemm.op, Op::gemm);
  EXPECT_EQ(gemm.m, 64);
  EXPECT_EQ(gemm.tokens, 0);
  const OpQuery& attention = file.samples[1].query;
  EXPECT_EQ(attention.op, Op::attention);
  EXPECT_EQ(attention.num_kv_heads, 32);
  EXPECT_EQ(file.samples[1].source, "x.csv");
  const OpQuery& layer = file.samples[2].query;
  EXPECT_EQ(layer.op, Op::layer);
  EXPECT_EQ(layer.bitwidth, 4);
  EXPECT_EQ(layer.model, "opt-30b");
  ASSERT_EQ(file.skipped.size(), 1u);
  EXPECT_EQ(file.skipped[0].count, 2);
  EXPECT_EQ(file.warning("x.csv"),
            "x.csv: left out 2 rows with a size of zero (the first on line 5)");
}

TEST(ReadSamples, OwnSchemaRefuses) {
  const auto row = [](const std::string& text) { return kOwn + text + "\n"; };
  refused(row("T4-16G,vllm,float16,,,,64,,nan,mine,4096,128,,,,"),
          {"x.csv, line 2", "'latency_s' is 'nan'", "above zero"});
  refused(row("T4-16G,vllm,float16,,,,64,,0,mine,4096,128,,,,"), {"line 2", "'latency_s' is '0'"});
  refused(row("T4-16G,vllm,float16,,,,64,,-1,mine,4096,128,,,,"), {"line 2", "'latency_s'"});
  refused(row("T4-16G,vllm,float16,,,,64,,fast,mine,4096,128,,,,"), {"line 2", "'fast'"});
  refused(row("T4-16G,vllm,float16,,,,-64,,0.1,mine,4096,128,,,,"),
          {"line 2", "'tokens' is '-64'"});
  refused(row("T4-16G,vllm,float16,,,,nan,,0.1,mine,4096,128,,,,"), {"line 2", "'tokens'"});
  refused(row("T4-16G,vllm,,,,,64,,0.1,mine,4096,128,,,,"), {"line 2", "no dtype"});
  refused(row(",vllm,float16,,,,64,,0.1,mine,4096,128,,,,"), {"line 2", "'device' is empty"});
  refused(row("T4-16G,vllm,,,prefill,8,512,0,0.3,mine,,,,,,4"), {"line 2", "without a model"});
  refused(row("T4-16G,vllm,,,encode,8,512,0,0.3,mine,,,,,opt-30b,4"), {"line 2", "'encode'"});
  refused(row("T4-16G,vllm,,,prefill,8,,0,0.3,mine,,,,,opt-30b,4"), {"line 2", "no tokens"});
  refused(row("T4-16G,vllm,float16,gem,,,64,,0.1,mine,4096,128,,,,"), {"line 2", "did you mean"});
  refused("device,kernel_set,latency_s,bacth\n", {"line 1", "did you mean 'batch'"});
  refused("kernel_set,latency_s\nvllm,1\n", {"no column 'device'"});
  refused(kOwn, {"x.csv: no rows"});
  refused(row("T4-16G,vllm,,,prefill,0,512,0,0,mine,,,,,opt-30b,4"), {"no row is left"});
}

TEST(ReadSamples, RepeatsBecomeTheirMedianAndContradictionsErrors) {
  const std::string row = "T4-16G,vllm,float16,,,,64,,";
  const std::string rest = ",mine,4096,128,,,,\n";
  const SampleFile file =
      parse(kOwn + row + "0.1" + rest + row + "0.12" + rest + row + "0.19" + rest);
  ASSERT_EQ(file.samples.size(), 1u);
  EXPECT_EQ(file.samples[0].latency_s, 0.12);
  EXPECT_EQ(file.num_repeats, 2);
  refused(kOwn + row + "0.1" + rest + row + "0.21" + rest,
          {"x.csv, line 3", "0.21 s for gemm float16 m 64", "line 2 says 0.1 s", "factor of 2"});
  // Another source may say what it likes.
  EXPECT_EQ(parse(kOwn + row + "0.1" + rest + row + "0.9,yours,4096,128,,,,\n").samples.size(), 2u);
}

TEST(ReadSamples, Aiconfigurator) {
  const std::string header =
      "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n";
  const SampleFile file = parse(header +
                                "TRTLLM,1.0.0,NVIDIA A100-SXM4-80GB,gemm,t,int4_wo,8,16,32,"
                                "1.5\nTRTLLM,1.0.0,NVIDIA H200,gemm,t,fp8,8,16,32,1\n");
  EXPECT_EQ(file.format, "aiconfigurator");
  EXPECT_EQ(file.samples[0].device, "A100-80G");
  EXPECT_EQ(file.samples[1].device, "H200-141G");
  EXPECT_EQ(file.samples[0].kernel_set, "modern");
  EXPECT_EQ(file.samples[0].source, "aiconfigurator, TRTLLM 1.0.0");
  EXPECT_DOUBLE_EQ(file.samples[0].latency_s, 1.5e-3);
  refused(header + "TRTLLM,1.0.0,NVIDIA H100 CNX,gemm,t,fp8,8,16,32,1\n",
          {"line 2", "'NVIDIA H100 CNX'", "give device"});
  ReadOptions options;
  options.device = "H100-80G";
  options.kernel_set = "mine";
  const SampleFile overridden =
      parse(header + "TRTLLM,1.0.0,NVIDIA H100 PCIe,gemm,t,fp8,8,16,32,1\n", "x.csv", options);
  EXPECT_EQ(overridden.samples[0].device, "H100-80G");
  EXPECT_EQ(overridden.samples[0].kernel_set, "mine");
}

TEST(ReadSamples, AiconfiguratorAttentionAndCollectives) {
  const SampleFile attention = parse(
      "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,"
      "num_key_value_heads,head_dim,window_size,beam_width,attn_dtype,kv_cache_dtype,step,"
      "latency\nTRTLLM,1,NVIDIA H200,generation_attention,t,32,1,64,8,128,0,1,bfloat16,fp8,"
      "1023,0.04\n");
  const OpQuery& query = attention.samples[0].query;
  EXPECT_EQ(query.phase, Phase::decode);
  EXPECT_EQ(query.context_tokens, 1023);
  EXPECT_EQ(query.num_kv_heads, 8);
  EXPECT_EQ(query.kv_dtype, "fp8");
  const SampleFile nccl = parse(
      "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
      "TRTLLM,2,NVIDIA H200,all_reduce,NCCL,half,8,1024,0.01\n"
      "TRTLLM,2,NVIDIA H200,all_gather,NCCL,half,8,1024,0.01\n"
      "TRTLLM,2,NVIDIA H200,reduce_scatter,NCCL,half,8,1024,0.01\n"
      "TRTLLM,2,NVIDIA H200,alltoall,NCCL,int8,8,1024,0.01\n"
      "TRTLLM,2,NVIDIA H200,broadcast,NCCL,half,8,1024,0.01\n");
  ASSERT_EQ(nccl.samples.size(), 4u);
  const OpQuery& sum = nccl.samples[0].query;
  EXPECT_EQ(sum.name, "nccl");  // not the runtime's own kernel
  EXPECT_EQ(sum.dtype, "half");
  EXPECT_EQ(sum.bytes, 2048);  // elements of two bytes
  EXPECT_EQ(sum.num_devices, 8);
  EXPECT_EQ(nccl.samples[1].query.op, Op::all_gather);
  EXPECT_EQ(nccl.samples[2].query.op, Op::reduce_scatter);
  EXPECT_EQ(nccl.samples[3].query.op, Op::all_to_all);
  EXPECT_EQ(nccl.samples[3].query.bytes, 1024);
  EXPECT_EQ(nccl.samples[3].query.dtype, "");  // moved as they are
  EXPECT_THAT(nccl.warning("x"), HasSubstr("'broadcast'"));
}

TEST(ReadSamples, AiconfiguratorExperts) {
  const std::string header =
      "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
      "distribution,latency\n";
  ReadOptions options;
  options.device = "H200-141G";
  const SampleFile file = parse(header +
                                    "fp8,64,7168,2048,8,256,4,2,power_law_1.2,0.5\n"
                                    "bfloat16,1,7168,2048,8,256,1,1,balanced,0.2\n"
                                    "mxfp3,1,7168,2048,8,256,1,1,balanced,0.2\n",
                                "moe_perf.csv", options);
  EXPECT_EQ(file.format, "aiconfigurator");
  ASSERT_EQ(file.samples.size(), 2u);
  const OpQuery& query = file.samples[0].query;
  EXPECT_EQ(query.op, Op::experts);
  EXPECT_EQ(query.dtype, "fp8");
  EXPECT_EQ(query.tokens, 64);
  EXPECT_EQ(query.inner_size, 512);  // of the part that a device holds
  EXPECT_EQ(query.num_experts, 256);
  EXPECT_EQ(query.top_k, 8);
  EXPECT_EQ(query.num_devices, 2);
  EXPECT_EQ(query.routing, 1.2);
  EXPECT_EQ(file.samples[1].query.routing, 0);
  EXPECT_EQ(file.samples[1].source, "aiconfigurator");
  EXPECT_THAT(file.warning("x"), HasSubstr("1 row with moe_dtype 'mxfp3'"));
  refused(header + "fp8,64,7168,2048,8,256,4,2,zipf,0.5\n", {"line 2", "'zipf'", "balanced"},
          "x.csv", options);
  refused(header + "fp8,64,7168,2048,8,256,4,2,power_law_9,0.5\n", {"line 2", "'power_law_9'"},
          "x.csv", options);
  refused(header + "fp8,64,7168,2048,8,256,4,2,balanced,0.5\n", {"no column 'device'"});
}

// Tables leave out the columns that have one value only.
TEST(ReadSamples, AiconfiguratorWithoutConstantColumns) {
  ReadOptions options;
  options.device = "A100-80G";
  options.kernel_set = "vllm";
  const auto first = [&](const std::string& text) {
    const SampleFile file = parse(text, "x.csv", options);
    EXPECT_EQ(file.format, "aiconfigurator");
    EXPECT_EQ(file.samples[0].device, "A100-80G");
    EXPECT_EQ(file.samples[0].kernel_set, "vllm");
    EXPECT_EQ(file.samples[0].query.dtype, "bfloat16");
    return file.samples[0].query;
  };
  EXPECT_EQ(first("m,n,k,latency\n8,16,32,1\n").op, Op::gemm);
  const OpQuery prompt =
      first("batch_size,isl,num_heads,num_key_value_heads,latency\n4,512,64,8,1\n");
  EXPECT_EQ(prompt.phase, Phase::prefill);
  EXPECT_EQ(prompt.tokens, 512);
  EXPECT_EQ(prompt.context_tokens, 0);
  EXPECT_EQ(prompt.head_dim, 128);
  const OpQuery step = first(
      "batch_size,num_heads,num_key_value_heads,kv_cache_dtype,step,window_size,latency\n"
      "4,64,8,fp8,1023,-1,1\n");
  EXPECT_EQ(step.phase, Phase::decode);
  EXPECT_EQ(step.tokens, 1);
  EXPECT_EQ(step.context_tokens, 1023);
  EXPECT_EQ(step.window, 0);
  EXPECT_EQ(step.kv_dtype, "fp8");
  const OpQuery both =
      first("batch_size,isl,step,num_heads,num_key_value_heads,latency\n4,16,2,64,8,1\n");
  EXPECT_EQ(both.phase, Phase::prefill);
  EXPECT_EQ(both.context_tokens, 2);
  refused("batch_size,num_heads,num_key_value_heads,latency\n4,64,8,1\n", {"no column 'op_name'"},
          "x.csv", options);
  const OpQuery sum = first("num_gpus,message_size,latency\n2,128,0.003\n");
  EXPECT_EQ(sum.op, Op::all_reduce);
  EXPECT_EQ(sum.bytes, 256);
  const SampleFile graph = parse(
      "kernel_source,num_gpus,message_size,latency,backend\n"
      "vLLM_custom_graph,2,128,0.0044,vllm_graph\nvLLM_custom_eager,2,128,0.0208,vllm_eager\n",
      "x.csv", options);
  ASSERT_EQ(graph.samples.size(), 1u);
  EXPECT_DOUBLE_EQ(graph.samples[0].latency_s, 4.4e-6);
  EXPECT_EQ(graph.samples[0].source, "aiconfigurator, vLLM_custom_graph");
  EXPECT_THAT(graph.warning("x"), HasSubstr("vllm_eager"));
}

TEST(ReadSamples, VidurShapesAreOfOneWorker) {
  const std::string text =
      "time_stats.attn_pre_proj.median,time_stats.mlp_up_proj.median,time_stats.add.median,n_head,"
      "n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n"
      "1,2,,32,8,4096,11008,True,64,2\n0,0,0,32,8,4096,11008,True,0,2\n";
  const SampleFile file = parse(text, "runs/a100_llama.csv");
  ASSERT_EQ(file.samples.size(), 2u);
  EXPECT_EQ(file.samples[0].device, "A100-80G");
  EXPECT_EQ(file.samples[0].query.n, (32 + 2 * 8) * 128 / 2);
  EXPECT_EQ(file.samples[0].query.k, 4096);
  EXPECT_EQ(file.samples[1].query.n, 11008);  // gate and up, halved
  EXPECT_EQ(file.samples[1].query.name, "mlp_up_proj");
  EXPECT_EQ(file.skipped[0].count, 1);
  refused(text, {"x.csv", "give device"});
}

TEST(ReadSamples, VidurAttention) {
  const SampleFile file = parse(
      "time_stats.attn_prefill.median,time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,"
      "num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size,is_prefill\n"
      "0.9,,4096,32,32,1,1,512,256,True\n,0.05,4096,32,32,1,8,0,512,False\n",
      "a40/attention.csv");
  ASSERT_EQ(file.samples.size(), 2u);
  EXPECT_EQ(file.samples[0].query.tokens, 512);
  EXPECT_EQ(file.samples[0].query.context_tokens, 256);
  EXPECT_EQ(file.samples[1].query.phase, Phase::decode);
  EXPECT_EQ(file.samples[1].query.tokens, 1);
  EXPECT_EQ(file.samples[1].query.batch_size, 8);
}

TEST(ReadSamples, HelixSaysThingsInItsPath) {
  const std::string path = "helix/llama1_30b/t4x2/prompt_bs2time.csv";
  const SampleFile file = parse("0,0\r\n250,7\r\n", path);
  EXPECT_EQ(file.format, "helix");
  ASSERT_EQ(file.samples.size(), 1u);
  EXPECT_EQ(file.samples[0].device, "2xT4-16G");
  EXPECT_EQ(file.samples[0].query.model, "llama-30b");
  EXPECT_EQ(file.samples[0].query.tokens, 250);
  EXPECT_EQ(file.warning(path), path + ": left out 1 row with a size of zero (line 1)");
  EXPECT_EQ(parse("2,4.7\n", "llama1_30b/l4/decode_bs2time.csv").samples[0].query.batch_size, 2);
  refused("250,7\n", {"prompt_... or decode_..."});
  refused("250,7\n", {"give model"}, "t4/prompt.csv");
  refused("250,7\n", {"give device"}, "llama1_30b/prompt.csv");
  refused("250,7,8\n250,7,8\n", {"no known format"}, path);
  refused("250,7\n500\n", {"line 2", "two columns"}, path);
  refused("250,0\n", {"line 1", "field 2 is '0'"}, path);
}

TEST(ReadSamples, Llmpq) {
  const std::string header =
      "kind,gpu,model,h1,h2,shard,bit,phase,batch,input_len,past_len,latency_ms,source,date,note\n";
  const SampleFile file = parse(
      header +
      "measured,T4-16G,opt-30b,1,2,attn+ffn,8,decode,2,1,512,20,nb,2023-06-21,\n"
      "measured,T4-16G,opt-30b,1,2,attn+ffn,8,decode,2,1,512,6,nb,2023-07-25,\"a, b\"\n"
      "measured,A100-SXM4-40GB,opt-175b,1,2,self_attn only,8:tc,decode,4,1,512,1.3,nb,2023-05-15,\n"
      "measured,T4-16G,unknown,,,x,2,decode (assumed),4,,,3.2,nb,2023-05-06,\n"
      "e2e_derived,T4-16G,opt-30b,1,2,attn+ffn,8,decode,2,1,512,99,nb,2023-06-21,\n");
  ASSERT_EQ(file.samples.size(), 3u);
  EXPECT_EQ(file.samples[0].kernel_set, "llmpq_2023");
  EXPECT_EQ(file.samples[1].kernel_set, "llmpq_2023_08");
  EXPECT_EQ(file.samples[2].query.name, "self_attn");
  EXPECT_EQ(file.samples[2].query.dtype, "8:tc");
  EXPECT_EQ(file.samples[2].query.bitwidth, 8);
  EXPECT_EQ(file.skipped.size(), 2u);
  ReadOptions options;
  options.kinds = {"e2e_derived"};
  EXPECT_EQ(parse(header + "e2e_derived,T4-16G,opt-30b,1,2,attn+ffn,8,decode,2,1,512,99,nb,2023,\n",
                  "x.csv", options)
                .samples.size(),
            1u);
}

TEST(ReadSamples, LlmpqProfiler) {
  const std::string header =
      "shard,h1,h2,bit,batch_size,input_seq_length,past_seq_length,lat_avg,mem_weight\n";
  const std::string path = "Tesla_V100-SXM2-32GB_30b.csv";
  const SampleFile file = parse(header +
                                    "0,7168,28672,4,8,1,512,3.1,1\n"
                                    "2,7168,28672,8:tc,8,512,0,99999,0\n"
                                    "1,7168,28672,16,8,512,0,150,0\n",
                                path);
  ASSERT_EQ(file.samples.size(), 2u);
  EXPECT_EQ(file.samples[0].device, "V100-32G");
  EXPECT_EQ(file.samples[0].query.model, "opt-30b");
  EXPECT_EQ(file.samples[0].query.name, "self_attn");
  EXPECT_EQ(file.samples[0].query.phase, Phase::decode);
  EXPECT_EQ(file.samples[1].query.name, "ffn");
  EXPECT_EQ(file.skipped[0].reason, "no kernel for its bitwidth");
  refused(header + "0,2048,8192,4,8,1,512,3.1,1\n", {"line 2", "give model"}, path);
  refused(header + "0,7168,28672,x,8,1,512,3.1,1\n", {"line 2", "bitwidth"}, path);
  refused(header + "3,7168,28672,4,8,1,512,3.1,1\n", {"line 2", "'shard'"}, path);
  refused(header + "0,7168,28672,4,8,1,512,3.1,1\n", {"give device"}, "profile.csv");
}

TEST(ReadSamples, UnknownFormats) {
  refused("a,b,c\n1,2,3\n", {"x.csv: its header is of no known format", "'a, b, c'", "helix"});
  refused("", {"x.csv: empty"});
  refused(std::string("\x89PNG\0\n", 6), {"NUL byte"});
  ReadOptions options;
  options.format = "vidr";
  refused("a\n", {"unknown format 'vidr'", "did you mean 'vidur'"}, "x.csv", options);
}

}  // namespace
}  // namespace tessera::cost::read_samples_test
