	.file	"<string>"
	.text
	.globl	k
	.p2align	4
	.type	k,@function
k:
	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	subq	$16, %rsp
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -16
	movq	(%rdi), %rax
	movq	8(%rdi), %rsi
	movq	16(%rdi), %rbx
	movq	24(%rdi), %r10
	movslq	%edx, %r11
	movslq	%ecx, %r9
	movq	%r8, (%rsp)
	movq	%rax, %rdi
	movq	%rbx, %rdx
	movq	%r10, %rcx
	movq	%r11, %r8
	callq	k.body
	addq	$16, %rsp
	.cfi_def_cfa_offset 16
	popq	%rbx
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end0:
	.size	k, .Lfunc_end0-k
	.cfi_endproc

	.p2align	4
	.type	k.body,@function
k.body:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	andq	$-64, %rsp
	subq	$320, %rsp
	movq	%rcx, 232(%rsp)
	movq	%rdx, 224(%rsp)
	movq	%rsi, 216(%rsp)
	movq	%rdi, 208(%rsp)
	cmpq	$2, %r9
	jl	.LBB1_1
	movq	%r8, 56(%rsp)
	movl	$3, %r8d
	cmovleq	%r9, %r8
	movl	$1, %r11d
	movabsq	$4611686018427387904, %r14
	movl	$1, %ebx
	movl	$1, %r15d
	jmp	.LBB1_3
	.p2align	4
.LBB1_17:
	cmpq	%r8, %r15
	leaq	1(%r15), %r15
	jge	.LBB1_18
.LBB1_3:
	movq	%r9, %rax
	orq	%r15, %rax
	shrq	$32, %rax
	je	.LBB1_4
	movq	%r9, %rax
	xorl	%edx, %edx
	divq	%r15
	jmp	.LBB1_6
	.p2align	4
.LBB1_4:
	movl	%r9d, %eax
	xorl	%edx, %edx
	divl	%r15d
.LBB1_6:
	cmpq	$3, %rax
	movl	$3, %r12d
	cmovlq	%rax, %r12
	testq	%rax, %rax
	jle	.LBB1_17
	leaq	2(%r15), %rcx
	movq	%rcx, %r13
	orq	%r15, %r13
	shrq	$32, %r13
	xorl	%esi, %esi
	jmp	.LBB1_8
	.p2align	4
.LBB1_16:
	movq	%r10, %rsi
	cmpq	%r12, %r10
	jge	.LBB1_17
.LBB1_8:
	testq	%r13, %r13
	je	.LBB1_9
	movq	%rcx, %rax
	xorl	%edx, %edx
	divq	%r15
	movq	%rax, %rdi
	jmp	.LBB1_11
	.p2align	4
.LBB1_9:
	movl	%ecx, %eax
	xorl	%edx, %edx
	divl	%r15d
	movl	%eax, %edi
.LBB1_11:
	leaq	1(%rsi), %r10
	addq	$3, %rsi
	movq	%rsi, %rax
	orq	%r10, %rax
	shrq	$32, %rax
	je	.LBB1_12
	movq	%rsi, %rax
	xorl	%edx, %edx
	divq	%r10
	jmp	.LBB1_14
	.p2align	4
.LBB1_12:
	movl	%esi, %eax
	xorl	%edx, %edx
	divl	%r10d
.LBB1_14:
	leaq	(%rax,%rax,4), %rax
	leaq	(%rax,%rax,2), %rax
	addq	$12, %rax
	imulq	%rax, %rdi
	cmpq	%r14, %rdi
	jge	.LBB1_16
	movq	%rdi, %r14
	movq	%r15, %r11
	movq	%r10, %rbx
	jmp	.LBB1_16
.LBB1_1:
	movl	$3, %esi
	xorl	%r9d, %r9d
	movq	$0, 48(%rsp)
	movl	$3, %r14d
	cmpq	%rsi, %r9
	jl	.LBB1_35
	jmp	.LBB1_46
.LBB1_18:
	movq	%r11, %rcx
	imulq	%rbx, %rcx
	movq	56(%rsp), %rax
	cmpq	%rcx, %rax
	jge	.LBB1_46
	movq	%rax, %rcx
	orq	%rbx, %rcx
	shrq	$32, %rcx
	je	.LBB1_20
	xorl	%edx, %edx
	divq	%rbx
	movq	%rdx, %rcx
	jmp	.LBB1_22
.LBB1_20:
	xorl	%edx, %edx
	divl	%ebx
	movl	%edx, %ecx
.LBB1_22:
	leaq	(%rax,%rax,2), %rsi
	movq	%rsi, %rax
	orq	%r11, %rax
	shrq	$32, %rax
	je	.LBB1_23
	movq	%rsi, %rax
	xorl	%edx, %edx
	divq	%r11
	movq	%rax, %r9
	jmp	.LBB1_25
.LBB1_23:
	movl	%esi, %eax
	xorl	%edx, %edx
	divl	%r11d
	movl	%eax, %r9d
.LBB1_25:
	addq	$3, %rsi
	movq	%rsi, %rax
	orq	%r11, %rax
	shrq	$32, %rax
	je	.LBB1_26
	movq	%rsi, %rax
	xorl	%edx, %edx
	divq	%r11
	movq	%rax, %rsi
	jmp	.LBB1_28
.LBB1_26:
	movl	%esi, %eax
	xorl	%edx, %edx
	divl	%r11d
	movl	%eax, %esi
.LBB1_28:
	leaq	(%rcx,%rcx,2), %rcx
	movq	%rcx, %rax
	orq	%rbx, %rax
	shrq	$32, %rax
	je	.LBB1_29
	movq	%rcx, %rax
	xorl	%edx, %edx
	divq	%rbx
	jmp	.LBB1_31
.LBB1_29:
	movl	%ecx, %eax
	xorl	%edx, %edx
	divl	%ebx
.LBB1_31:
	movq	%rax, 48(%rsp)
	addq	$3, %rcx
	movq	%rcx, %rax
	orq	%rbx, %rax
	shrq	$32, %rax
	je	.LBB1_32
	movq	%rcx, %rax
	xorl	%edx, %edx
	divq	%rbx
	movq	%rax, %r14
	cmpq	%rsi, %r9
	jl	.LBB1_35
	jmp	.LBB1_46
.LBB1_32:
	movl	%ecx, %eax
	xorl	%edx, %edx
	divl	%ebx
	movl	%eax, %r14d
	cmpq	%rsi, %r9
	jge	.LBB1_46
.LBB1_35:
	movq	16(%rbp), %rcx
	leaq	128(%rcx), %r15
	leaq	192(%rcx), %r10
	movq	48(%rsp), %rax
	leaq	(,%rax,4), %rdx
	leaq	1(%rax), %r8
	movq	%r8, 192(%rsp)
	movq	%rdx, 136(%rsp)
	negq	%rdx
	movq	%rdx, 184(%rsp)
	cmpq	$2, %rax
	movl	$1, %edx
	cmovgeq	%rax, %rdx
	leaq	4(,%rax,4), %r8
	movq	%r8, 168(%rsp)
	leaq	1(,%rdx,4), %r8
	movq	%r8, 160(%rsp)
	shlq	$5, %rdx
	shlq	$5, %rax
	subq	%rax, %rdx
	addq	%rcx, %rdx
	movq	%rdx, 176(%rsp)
	leaq	64(%rsp), %rdi
	movq	%rsi, 200(%rsp)
	movq	%r14, 56(%rsp)
	movq	%r15, 152(%rsp)
	movq	%r10, 144(%rsp)
	jmp	.LBB1_36
	.p2align	4
.LBB1_45:
	movq	240(%rsp), %r9
	incq	%r9
	movq	200(%rsp), %rsi
	cmpq	%rsi, %r9
	jge	.LBB1_46
.LBB1_36:
	movq	%r9, %rsi
	shlq	$5, %rsi
	subq	%r9, %rsi
	subq	%r9, %rsi
	addq	216(%rsp), %rsi
	movq	%r9, 240(%rsp)
	imulq	$390, %r9, %rax
	addq	232(%rsp), %rax
	movq	224(%rsp), %rcx
	movq	%rcx, 64(%rsp)
	movq	%rax, 72(%rsp)
	movl	$15, %ecx
	movl	$1, %r8d
	movq	%r15, %rdx
	callq	pack_b
	cmpq	%r14, 48(%rsp)
	movq	208(%rsp), %r13
	movq	%r14, %rcx
	movl	$13, %edi
	jge	.LBB1_39
	movq	16(%rbp), %rdx
	movq	184(%rsp), %r9
	movq	168(%rsp), %r14
	movq	192(%rsp), %rbx
	movq	136(%rsp), %r15
	movq	48(%rsp), %r12
	.p2align	4
.LBB1_38:
	movq	%r9, 248(%rsp)
	movq	%rdx, 256(%rsp)
	testq	%r12, %r12
	movl	$1, %eax
	cmovleq	%r12, %rax
	leaq	(%rax,%r15), %r8
	testq	%rbx, %rbx
	movl	$1, %ecx
	cmovleq	%rbx, %rcx
	addq	%r14, %rcx
	cmpq	$13, %rcx
	cmovgeq	%rdi, %rcx
	addq	%r9, %rcx
	subq	%rax, %rcx
	incq	%r12
	leaq	(,%r8,2), %rsi
	addq	%r13, %rsi
	movl	$1, %r8d
	leaq	64(%rsp), %rdi
	callq	pack_a
	movq	248(%rsp), %r9
	movq	256(%rsp), %rdx
	movl	$13, %edi
	movq	56(%rsp), %rcx
	addq	$4, %r15
	incq	%rbx
	addq	$4, %r14
	addq	$-4, %r9
	addq	$32, %rdx
	cmpq	%rcx, %r12
	jl	.LBB1_38
.LBB1_39:
	testq	%rcx, %rcx
	movl	$1, %r13d
	cmovleq	%rcx, %r13
	cmpq	%r13, 48(%rsp)
	movq	152(%rsp), %rdx
	movq	144(%rsp), %r10
	jge	.LBB1_42
	movq	16(%rbp), %r12
	movq	136(%rsp), %r14
	movq	48(%rsp), %r15
	.p2align	4
.LBB1_41:
	testq	%r15, %r15
	movl	$1, %ecx
	cmovleq	%r15, %rcx
	addq	%r14, %rcx
	subq	$8, %rsp
	movl	$15, %r9d
	leaq	72(%rsp), %rdi
	movq	%r12, %rsi
	xorl	%r8d, %r8d
	pushq	$0
	pushq	%rdx
	pushq	%r10
	pushq	$1
	pushq	$1
	movq	%r10, %rbx
	callq	tile_edge_5x1x2
	movq	200(%rsp), %rdx
	movq	%rbx, %r10
	addq	$48, %rsp
	incq	%r15
	addq	$4, %r14
	addq	$32, %r12
	cmpq	%r13, %r15
	jl	.LBB1_41
.LBB1_42:
	movq	48(%rsp), %rax
	cmpq	$2, %rax
	movl	$1, %ebx
	cmovgeq	%rax, %rbx
	movq	56(%rsp), %r14
	cmpq	%r14, %rbx
	movq	%rdx, %r15
	leaq	64(%rsp), %rdi
	jge	.LBB1_45
	movq	176(%rsp), %r12
	movq	160(%rsp), %r13
	.p2align	4
.LBB1_44:
	subq	$8, %rsp
	movl	$15, %r9d
	movq	%r12, %rsi
	movq	%rdi, %r14
	movq	%r15, %rdx
	movq	%r13, %rcx
	xorl	%r8d, %r8d
	pushq	$0
	pushq	%r15
	pushq	%r10
	pushq	$1
	pushq	$1
	callq	tile_edge_4x1x2
	movq	%r14, %rdi
	movq	104(%rsp), %r14
	movq	192(%rsp), %r10
	addq	$48, %rsp
	incq	%rbx
	addq	$4, %r13
	addq	$32, %r12
	cmpq	%r14, %rbx
	jl	.LBB1_44
	jmp	.LBB1_45
.LBB1_46:
	xorl	%eax, %eax
	leaq	-40(%rbp), %rsp
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	retq
.Lfunc_end1:
	.size	k.body, .Lfunc_end1-k.body

	.p2align	4
	.type	pack_a,@function
pack_a:
	cmpq	$8, %rcx
	movl	$8, %eax
	cmovlq	%rcx, %rax
	testq	%r8, %r8
	jle	.LBB2_7
	pushq	%rbp
	movq	%rsp, %rbp
	andq	$-64, %rsp
	subq	$64, %rsp
	xorl	%edi, %edi
	vxorps	%xmm0, %xmm0, %xmm0
	jmp	.LBB2_2
	.p2align	4
.LBB2_5:
	vpmovzxwd	(%rsp), %ymm1
	movq	%rdi, %r9
	shlq	$5, %r9
	vpslld	$16, %ymm1, %ymm1
	vmovdqa	%ymm1, (%rdx,%r9)
	incq	%rdi
	addq	$4, %rsi
	cmpq	%r8, %rdi
	jge	.LBB2_6
.LBB2_2:
	vmovaps	%xmm0, (%rsp)
	testq	%rcx, %rcx
	jle	.LBB2_5
	xorl	%r9d, %r9d
	.p2align	4
.LBB2_4:
	movzwl	(%rsi,%r9,2), %r10d
	movw	%r10w, (%rsp,%r9,2)
	incq	%r9
	cmpq	%rax, %r9
	jl	.LBB2_4
	jmp	.LBB2_5
.LBB2_6:
	movq	%rbp, %rsp
	popq	%rbp
.LBB2_7:
	vzeroupper
	retq
.Lfunc_end2:
	.size	pack_a, .Lfunc_end2-pack_a

	.p2align	4
	.type	pack_b,@function
pack_b:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rbx
	andq	$-64, %rsp
	subq	$128, %rsp
	cmpq	$16, %rcx
	jl	.LBB3_4
	testq	%r8, %r8
	jle	.LBB3_13
	addq	$32, %rdx
	xorl	%eax, %eax
	.p2align	4
.LBB3_3:
	vpmovzxwd	(%rsi,%rax,2), %ymm0
	vpslld	$16, %ymm0, %ymm0
	vmovdqa	%ymm0, -32(%rdx)
	vpmovzxwd	16(%rsi,%rax,2), %ymm0
	vpslld	$16, %ymm0, %ymm0
	vmovdqa	%ymm0, (%rdx)
	incq	%rax
	addq	$64, %rdx
	cmpq	%r8, %rax
	jl	.LBB3_3
	jmp	.LBB3_13
.LBB3_4:
	testq	%r8, %r8
	jle	.LBB3_13
	xorl	%eax, %eax
	vpxor	%xmm0, %xmm0, %xmm0
	leaq	-8(%rcx), %rdi
	jmp	.LBB3_6
	.p2align	4
.LBB3_12:
	vpmovzxwd	(%rsp), %ymm1
	vpslld	$16, %ymm1, %ymm1
	vmovdqa	%ymm1, 32(%rdx,%r9)
	incq	%rax
	addq	$2, %rsi
	cmpq	%r8, %rax
	jge	.LBB3_13
.LBB3_6:
	cmpq	$8, %rcx
	movl	$8, %r9d
	cmovlq	%rcx, %r9
	vmovdqa	%xmm0, 64(%rsp)
	testq	%rcx, %rcx
	jle	.LBB3_9
	xorl	%r10d, %r10d
	.p2align	4
.LBB3_8:
	movzwl	(%rsi,%r10,2), %r11d
	movw	%r11w, 64(%rsp,%r10,2)
	incq	%r10
	cmpq	%r9, %r10
	jl	.LBB3_8
.LBB3_9:
	vpmovzxwd	64(%rsp), %ymm1
	movq	%rax, %r9
	shlq	$6, %r9
	vpslld	$16, %ymm1, %ymm1
	vmovdqa	%ymm1, (%rdx,%r9)
	cmpq	$8, %rdi
	movl	$8, %r10d
	cmovlq	%rdi, %r10
	vmovdqa	%xmm0, (%rsp)
	testq	%rdi, %rdi
	jle	.LBB3_12
	xorl	%r11d, %r11d
	.p2align	4
.LBB3_11:
	movzwl	16(%rsi,%r11,2), %ebx
	movw	%bx, (%rsp,%r11,2)
	incq	%r11
	cmpq	%r10, %r11
	jl	.LBB3_11
	jmp	.LBB3_12
.LBB3_13:
	leaq	-8(%rbp), %rsp
	popq	%rbx
	popq	%rbp
	vzeroupper
	retq
.Lfunc_end3:
	.size	pack_b, .Lfunc_end3-pack_b

	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI4_0:
	.long	1
.LCPI4_1:
	.long	32767
.LCPI4_2:
	.long	64
.LCPI4_3:
	.long	0x7fffffff
.LCPI4_4:
	.long	2139095041
	.text
	.p2align	4
	.type	tile_5x1x2,@function
tile_5x1x2:
	subq	$40, %rsp
	vmovups	(%rdx), %ymm9
	vmovups	32(%rdx), %ymm10
	vbroadcastss	(%rsi), %ymm0
	vxorps	%xmm2, %xmm2, %xmm2
	vmovaps	%ymm9, %ymm3
	vfmadd213ps	%ymm2, %ymm0, %ymm3
	vfmadd213ps	%ymm2, %ymm10, %ymm0
	movq	(%rdi), %rax
	vpmovzxwd	(%rax,%r8,2), %ymm4
	vbroadcastss	4(%rsi), %ymm6
	vpslld	$16, %ymm4, %ymm15
	vaddps	%ymm3, %ymm15, %ymm3
	vmaxps	%ymm3, %ymm2, %ymm8
	vpsrld	$16, %ymm8, %ymm7
	vpbroadcastd	.LCPI4_0(%rip), %ymm3
	vpand	%ymm3, %ymm7, %ymm5
	vpbroadcastd	.LCPI4_1(%rip), %ymm4
	vpaddd	%ymm4, %ymm8, %ymm11
	vpaddd	%ymm5, %ymm11, %ymm5
	vpsrld	$16, %ymm5, %ymm11
	vpbroadcastd	.LCPI4_2(%rip), %ymm5
	vpor	%ymm5, %ymm7, %ymm12
	vpbroadcastd	.LCPI4_3(%rip), %ymm7
	vpand	%ymm7, %ymm8, %ymm13
	vpbroadcastd	.LCPI4_4(%rip), %ymm8
	vpmaxud	%ymm8, %ymm13, %ymm14
	vpcmpeqd	%ymm14, %ymm13, %ymm13
	vblendvps	%ymm13, %ymm12, %ymm11, %ymm1
	vmovups	%ymm1, (%rsp)
	vpmovzxwd	16(%rax,%r8,2), %ymm11
	vpslld	$16, %ymm11, %ymm11
	vaddps	%ymm0, %ymm11, %ymm0
	vmaxps	%ymm0, %ymm2, %ymm0
	vpsrld	$16, %ymm0, %ymm12
	vpand	%ymm3, %ymm12, %ymm13
	vpaddd	%ymm4, %ymm0, %ymm14
	vpaddd	%ymm14, %ymm13, %ymm13
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm14
	vpcmpeqd	%ymm0, %ymm14, %ymm0
	vmovaps	%ymm9, %ymm14
	vpsrld	$16, %ymm13, %ymm13
	vpor	%ymm5, %ymm12, %ymm12
	vblendvps	%ymm0, %ymm12, %ymm13, %ymm0
	vmovups	%ymm0, -32(%rsp)
	vfmadd213ps	%ymm2, %ymm6, %ymm14
	vaddps	%ymm15, %ymm14, %ymm0
	vmaxps	%ymm0, %ymm2, %ymm0
	vpsrld	$16, %ymm0, %ymm12
	vpand	%ymm3, %ymm12, %ymm13
	vpaddd	%ymm4, %ymm0, %ymm14
	vpaddd	%ymm14, %ymm13, %ymm13
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm14
	vpcmpeqd	%ymm0, %ymm14, %ymm0
	vfmadd213ps	%ymm2, %ymm10, %ymm6
	vpsrld	$16, %ymm13, %ymm13
	vpor	%ymm5, %ymm12, %ymm12
	vblendvps	%ymm0, %ymm12, %ymm13, %ymm0
	vmovups	%ymm0, -64(%rsp)
	vaddps	%ymm6, %ymm11, %ymm0
	vmaxps	%ymm0, %ymm2, %ymm0
	vpsrld	$16, %ymm0, %ymm6
	vpand	%ymm3, %ymm6, %ymm13
	vpaddd	%ymm4, %ymm0, %ymm14
	vpaddd	%ymm14, %ymm13, %ymm13
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm14
	vpcmpeqd	%ymm0, %ymm14, %ymm0
	vpsrld	$16, %ymm13, %ymm13
	vpor	%ymm5, %ymm6, %ymm6
	vblendvps	%ymm0, %ymm6, %ymm13, %ymm0
	vmovups	%ymm0, -96(%rsp)
	vbroadcastss	8(%rsi), %ymm0
	vmovaps	%ymm9, %ymm6
	vfmadd213ps	%ymm2, %ymm0, %ymm6
	vmovaps	%ymm15, %ymm1
	vaddps	%ymm6, %ymm15, %ymm6
	vmaxps	%ymm6, %ymm2, %ymm6
	vpsrld	$16, %ymm6, %ymm14
	vpand	%ymm3, %ymm14, %ymm15
	vpaddd	%ymm4, %ymm6, %ymm12
	vpaddd	%ymm12, %ymm15, %ymm12
	vpand	%ymm7, %ymm6, %ymm6
	vpmaxud	%ymm8, %ymm6, %ymm15
	vpcmpeqd	%ymm6, %ymm15, %ymm6
	vpsrld	$16, %ymm12, %ymm12
	vpor	%ymm5, %ymm14, %ymm14
	vblendvps	%ymm6, %ymm14, %ymm12, %ymm6
	vmovups	%ymm6, -128(%rsp)
	vfmadd213ps	%ymm2, %ymm10, %ymm0
	vaddps	%ymm0, %ymm11, %ymm0
	vmaxps	%ymm0, %ymm2, %ymm0
	vpsrld	$16, %ymm0, %ymm6
	vpand	%ymm3, %ymm6, %ymm12
	vpaddd	%ymm4, %ymm0, %ymm15
	vpaddd	%ymm15, %ymm12, %ymm12
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm15
	vpcmpeqd	%ymm0, %ymm15, %ymm0
	vpsrld	$16, %ymm12, %ymm12
	vpor	%ymm5, %ymm6, %ymm6
	vblendvps	%ymm0, %ymm6, %ymm12, %ymm15
	vbroadcastss	12(%rsi), %ymm0
	vmovaps	%ymm9, %ymm6
	vfmadd213ps	%ymm2, %ymm0, %ymm6
	vaddps	%ymm1, %ymm6, %ymm6
	vmovaps	%ymm1, %ymm14
	vmaxps	%ymm6, %ymm2, %ymm6
	vpsrld	$16, %ymm6, %ymm12
	vpand	%ymm3, %ymm12, %ymm1
	vpaddd	%ymm4, %ymm6, %ymm13
	vpaddd	%ymm1, %ymm13, %ymm1
	vpand	%ymm7, %ymm6, %ymm6
	vpmaxud	%ymm8, %ymm6, %ymm13
	vpcmpeqd	%ymm6, %ymm13, %ymm6
	vpsrld	$16, %ymm1, %ymm1
	vpor	%ymm5, %ymm12, %ymm12
	vblendvps	%ymm6, %ymm12, %ymm1, %ymm6
	vfmadd213ps	%ymm2, %ymm10, %ymm0
	vaddps	%ymm0, %ymm11, %ymm0
	vmaxps	%ymm0, %ymm2, %ymm0
	vpsrld	$16, %ymm0, %ymm1
	vpand	%ymm3, %ymm1, %ymm12
	vpaddd	%ymm4, %ymm0, %ymm13
	vpaddd	%ymm13, %ymm12, %ymm12
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm13
	vpcmpeqd	%ymm0, %ymm13, %ymm0
	vpsrld	$16, %ymm12, %ymm12
	vpor	%ymm5, %ymm1, %ymm1
	vblendvps	%ymm0, %ymm1, %ymm12, %ymm0
	vbroadcastss	16(%rsi), %ymm1
	vfmadd213ps	%ymm2, %ymm1, %ymm9
	vaddps	%ymm14, %ymm9, %ymm9
	vmaxps	%ymm9, %ymm2, %ymm9
	vpsrld	$16, %ymm9, %ymm12
	vpand	%ymm3, %ymm12, %ymm13
	vpaddd	%ymm4, %ymm9, %ymm14
	vpaddd	%ymm14, %ymm13, %ymm13
	vpand	%ymm7, %ymm9, %ymm9
	vpmaxud	%ymm8, %ymm9, %ymm14
	vpcmpeqd	%ymm14, %ymm9, %ymm9
	vpsrld	$16, %ymm13, %ymm13
	vpor	%ymm5, %ymm12, %ymm12
	vblendvps	%ymm9, %ymm12, %ymm13, %ymm9
	vfmadd213ps	%ymm2, %ymm1, %ymm10
	vaddps	%ymm11, %ymm10, %ymm1
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vpand	%ymm3, %ymm2, %ymm3
	vpaddd	%ymm4, %ymm1, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpor	%ymm5, %ymm2, %ymm2
	vpand	%ymm7, %ymm1, %ymm1
	vpmaxud	%ymm8, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vpsrld	$16, %ymm3, %ymm3
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vmovdqu	(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm2
	vpackusdw	%xmm2, %xmm3, %xmm2
	leaq	(%rcx,%rcx), %rax
	shlq	$5, %rcx
	subq	%rax, %rcx
	addq	8(%rdi), %rcx
	vmovdqu	%xmm2, (%rcx,%r8,2)
	vmovdqu	-32(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm2
	vpackusdw	%xmm2, %xmm3, %xmm2
	vmovdqu	%xmm2, 16(%rcx,%r8,2)
	vmovdqu	-64(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm2
	vpackusdw	%xmm2, %xmm3, %xmm2
	vmovdqu	%xmm2, 30(%rcx,%r8,2)
	vmovdqu	-96(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm2
	vpackusdw	%xmm2, %xmm3, %xmm2
	vmovdqu	%xmm2, 46(%rcx,%r8,2)
	vmovdqu	-128(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm2
	vpackusdw	%xmm2, %xmm3, %xmm2
	vmovdqu	%xmm2, 60(%rcx,%r8,2)
	vextractf128	$1, %ymm15, %xmm2
	vpackusdw	%xmm2, %xmm15, %xmm2
	vmovdqu	%xmm2, 76(%rcx,%r8,2)
	vextractf128	$1, %ymm6, %xmm2
	vpackusdw	%xmm2, %xmm6, %xmm2
	vmovdqu	%xmm2, 90(%rcx,%r8,2)
	vextractf128	$1, %ymm0, %xmm2
	vpackusdw	%xmm2, %xmm0, %xmm0
	vmovdqu	%xmm0, 106(%rcx,%r8,2)
	vextractf128	$1, %ymm9, %xmm0
	vpackusdw	%xmm0, %xmm9, %xmm0
	vmovdqu	%xmm0, 120(%rcx,%r8,2)
	vextractf128	$1, %ymm1, %xmm0
	vpackusdw	%xmm0, %xmm1, %xmm0
	vmovdqu	%xmm0, 136(%rcx,%r8,2)
	addq	$40, %rsp
	vzeroupper
	retq
.Lfunc_end4:
	.size	tile_5x1x2, .Lfunc_end4-tile_5x1x2

	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI5_0:
	.long	1
.LCPI5_1:
	.long	32767
.LCPI5_2:
	.long	64
.LCPI5_3:
	.long	0x7fffffff
.LCPI5_4:
	.long	2139095041
	.text
	.p2align	4
	.type	tile_4x1x2,@function
tile_4x1x2:
	pushq	%rax
	vmovups	(%rdx), %ymm2
	vmovups	32(%rdx), %ymm9
	vbroadcastss	(%rsi), %ymm10
	vxorps	%xmm1, %xmm1, %xmm1
	vmovaps	%ymm2, %ymm3
	vfmadd213ps	%ymm1, %ymm10, %ymm3
	vfmadd213ps	%ymm1, %ymm9, %ymm10
	movq	(%rdi), %rax
	vpmovzxwd	(%rax,%r8,2), %ymm4
	vpslld	$16, %ymm4, %ymm0
	vmovdqu	%ymm0, -128(%rsp)
	vaddps	%ymm0, %ymm3, %ymm3
	vmaxps	%ymm3, %ymm1, %ymm6
	vpsrld	$16, %ymm6, %ymm7
	vpbroadcastd	.LCPI5_0(%rip), %ymm3
	vpand	%ymm3, %ymm7, %ymm5
	vpbroadcastd	.LCPI5_1(%rip), %ymm4
	vpaddd	%ymm4, %ymm6, %ymm8
	vpaddd	%ymm5, %ymm8, %ymm5
	vpsrld	$16, %ymm5, %ymm11
	vpbroadcastd	.LCPI5_2(%rip), %ymm5
	vpor	%ymm5, %ymm7, %ymm12
	vpbroadcastd	.LCPI5_3(%rip), %ymm7
	vpand	%ymm7, %ymm6, %ymm6
	vpbroadcastd	.LCPI5_4(%rip), %ymm8
	vpmaxud	%ymm8, %ymm6, %ymm13
	vpcmpeqd	%ymm6, %ymm13, %ymm6
	vblendvps	%ymm6, %ymm12, %ymm11, %ymm0
	vmovups	%ymm0, -32(%rsp)
	vpmovzxwd	16(%rax,%r8,2), %ymm11
	vbroadcastss	4(%rsi), %ymm13
	vpslld	$16, %ymm11, %ymm11
	vaddps	%ymm11, %ymm10, %ymm10
	vmaxps	%ymm10, %ymm1, %ymm10
	vpsrld	$16, %ymm10, %ymm12
	vpand	%ymm3, %ymm12, %ymm14
	vpaddd	%ymm4, %ymm10, %ymm15
	vpaddd	%ymm15, %ymm14, %ymm14
	vpand	%ymm7, %ymm10, %ymm10
	vpmaxud	%ymm8, %ymm10, %ymm15
	vpcmpeqd	%ymm15, %ymm10, %ymm10
	vmovaps	%ymm2, %ymm15
	vfmadd213ps	%ymm1, %ymm13, %ymm15
	vpsrld	$16, %ymm14, %ymm14
	vpor	%ymm5, %ymm12, %ymm12
	vblendvps	%ymm10, %ymm12, %ymm14, %ymm0
	vmovups	%ymm0, -64(%rsp)
	vmovups	-128(%rsp), %ymm0
	vaddps	%ymm0, %ymm15, %ymm12
	vmaxps	%ymm12, %ymm1, %ymm12
	vpsrld	$16, %ymm12, %ymm14
	vpand	%ymm3, %ymm14, %ymm15
	vpaddd	%ymm4, %ymm12, %ymm6
	vpaddd	%ymm6, %ymm15, %ymm6
	vpand	%ymm7, %ymm12, %ymm12
	vpmaxud	%ymm8, %ymm12, %ymm15
	vpcmpeqd	%ymm15, %ymm12, %ymm12
	vfmadd213ps	%ymm1, %ymm9, %ymm13
	vpsrld	$16, %ymm6, %ymm6
	vpor	%ymm5, %ymm14, %ymm14
	vblendvps	%ymm12, %ymm14, %ymm6, %ymm6
	vmovups	%ymm6, -96(%rsp)
	vaddps	%ymm11, %ymm13, %ymm6
	vmaxps	%ymm6, %ymm1, %ymm6
	vpsrld	$16, %ymm6, %ymm13
	vpand	%ymm3, %ymm13, %ymm14
	vpaddd	%ymm4, %ymm6, %ymm15
	vpaddd	%ymm15, %ymm14, %ymm14
	vpand	%ymm7, %ymm6, %ymm6
	vpmaxud	%ymm8, %ymm6, %ymm15
	vpcmpeqd	%ymm6, %ymm15, %ymm6
	vpsrld	$16, %ymm14, %ymm14
	vpor	%ymm5, %ymm13, %ymm13
	vblendvps	%ymm6, %ymm13, %ymm14, %ymm13
	vbroadcastss	8(%rsi), %ymm6
	vmovaps	%ymm2, %ymm14
	vfmadd213ps	%ymm1, %ymm6, %ymm14
	vaddps	%ymm0, %ymm14, %ymm14
	vmovaps	%ymm0, %ymm12
	vmaxps	%ymm14, %ymm1, %ymm14
	vpsrld	$16, %ymm14, %ymm15
	vpand	%ymm3, %ymm15, %ymm0
	vpaddd	%ymm4, %ymm14, %ymm10
	vpaddd	%ymm0, %ymm10, %ymm0
	vpand	%ymm7, %ymm14, %ymm10
	vpmaxud	%ymm8, %ymm10, %ymm14
	vpcmpeqd	%ymm14, %ymm10, %ymm10
	vpsrld	$16, %ymm0, %ymm0
	vpor	%ymm5, %ymm15, %ymm14
	vblendvps	%ymm10, %ymm14, %ymm0, %ymm14
	vfmadd213ps	%ymm1, %ymm9, %ymm6
	vaddps	%ymm6, %ymm11, %ymm0
	vmaxps	%ymm0, %ymm1, %ymm0
	vpsrld	$16, %ymm0, %ymm6
	vpand	%ymm3, %ymm6, %ymm10
	vpaddd	%ymm4, %ymm0, %ymm15
	vpaddd	%ymm15, %ymm10, %ymm10
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm15
	vpcmpeqd	%ymm0, %ymm15, %ymm0
	vpsrld	$16, %ymm10, %ymm10
	vpor	%ymm5, %ymm6, %ymm6
	vblendvps	%ymm0, %ymm6, %ymm10, %ymm15
	vbroadcastss	12(%rsi), %ymm0
	vfmadd213ps	%ymm1, %ymm0, %ymm2
	vaddps	%ymm2, %ymm12, %ymm2
	vmaxps	%ymm2, %ymm1, %ymm2
	vpsrld	$16, %ymm2, %ymm6
	vpand	%ymm3, %ymm6, %ymm10
	vpaddd	%ymm4, %ymm2, %ymm12
	vpaddd	%ymm12, %ymm10, %ymm10
	vpand	%ymm7, %ymm2, %ymm2
	vpmaxud	%ymm8, %ymm2, %ymm12
	vpcmpeqd	%ymm2, %ymm12, %ymm2
	vpsrld	$16, %ymm10, %ymm10
	vpor	%ymm5, %ymm6, %ymm6
	vblendvps	%ymm2, %ymm6, %ymm10, %ymm2
	vfmadd213ps	%ymm1, %ymm0, %ymm9
	vaddps	%ymm11, %ymm9, %ymm0
	vmaxps	%ymm0, %ymm1, %ymm0
	vpsrld	$16, %ymm0, %ymm1
	vpand	%ymm3, %ymm1, %ymm3
	vpaddd	%ymm4, %ymm0, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpor	%ymm5, %ymm1, %ymm1
	vpand	%ymm7, %ymm0, %ymm0
	vpmaxud	%ymm8, %ymm0, %ymm4
	vpcmpeqd	%ymm4, %ymm0, %ymm0
	vpsrld	$16, %ymm3, %ymm3
	vblendvps	%ymm0, %ymm1, %ymm3, %ymm0
	vmovdqu	-32(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm1
	vpackusdw	%xmm1, %xmm3, %xmm1
	leaq	(%rcx,%rcx), %rax
	shlq	$5, %rcx
	subq	%rax, %rcx
	addq	8(%rdi), %rcx
	vmovdqu	%xmm1, (%rcx,%r8,2)
	vmovdqu	-64(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm1
	vpackusdw	%xmm1, %xmm3, %xmm1
	vmovdqu	%xmm1, 16(%rcx,%r8,2)
	vmovdqu	-96(%rsp), %ymm3
	vextracti128	$1, %ymm3, %xmm1
	vpackusdw	%xmm1, %xmm3, %xmm1
	vmovdqu	%xmm1, 30(%rcx,%r8,2)
	vextractf128	$1, %ymm13, %xmm1
	vpackusdw	%xmm1, %xmm13, %xmm1
	vmovdqu	%xmm1, 46(%rcx,%r8,2)
	vextractf128	$1, %ymm14, %xmm1
	vpackusdw	%xmm1, %xmm14, %xmm1
	vmovdqu	%xmm1, 60(%rcx,%r8,2)
	vextractf128	$1, %ymm15, %xmm1
	vpackusdw	%xmm1, %xmm15, %xmm1
	vmovdqu	%xmm1, 76(%rcx,%r8,2)
	vextractf128	$1, %ymm2, %xmm1
	vpackusdw	%xmm1, %xmm2, %xmm1
	vmovdqu	%xmm1, 90(%rcx,%r8,2)
	vextractf128	$1, %ymm0, %xmm1
	vpackusdw	%xmm1, %xmm0, %xmm0
	vmovdqu	%xmm0, 106(%rcx,%r8,2)
	popq	%rax
	vzeroupper
	retq
.Lfunc_end5:
	.size	tile_4x1x2, .Lfunc_end5-tile_4x1x2

	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI6_0:
	.long	1
.LCPI6_1:
	.long	32767
.LCPI6_2:
	.long	64
.LCPI6_3:
	.long	0x7fffffff
.LCPI6_4:
	.long	2139095041
	.text
	.p2align	4
	.type	tile_edge_5x1x2,@function
tile_edge_5x1x2:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	andq	$-64, %rsp
	subq	$1344, %rsp
	movq	%rcx, 32(%rsp)
	vmovups	(%rdx), %ymm0
	vmovups	32(%rdx), %ymm3
	vbroadcastss	(%rsi), %ymm8
	vxorps	%xmm4, %xmm4, %xmm4
	vbroadcastss	4(%rsi), %ymm7
	vbroadcastss	8(%rsi), %ymm6
	vbroadcastss	12(%rsi), %ymm5
	vbroadcastss	16(%rsi), %ymm2
	movq	(%rdi), %rax
	movq	8(%rdi), %rdi
	movq	%r9, %r10
	subq	$8, %r10
	movl	$8, %r14d
	cmovlq	%r9, %r14
	movl	$8, %r12d
	cmpq	$8, %r10
	cmovlq	%r10, %r12
	vxorps	%xmm1, %xmm1, %xmm1
	vmovaps	%xmm1, 192(%rsp)
	testq	%r9, %r9
	jle	.LBB6_3
	leaq	(%rax,%r8,2), %rcx
	xorl	%edx, %edx
	.p2align	4
.LBB6_2:
	movzwl	(%rcx,%rdx,2), %esi
	movw	%si, 192(%rsp,%rdx,2)
	incq	%rdx
	cmpq	%r14, %rdx
	jl	.LBB6_2
.LBB6_3:
	vmovaps	%ymm7, 1056(%rsp)
	vmovaps	%ymm6, 1152(%rsp)
	vmovaps	%ymm5, 1184(%rsp)
	vmovaps	%ymm2, 1216(%rsp)
	movq	%r9, 64(%rsp)
	movq	%rdi, 72(%rsp)
	movq	%r8, 56(%rsp)
	leaq	8(%r8), %rsi
	vmovaps	%ymm0, 1088(%rsp)
	vfmadd213ps	%ymm4, %ymm8, %ymm0
	vmovaps	%ymm0, 224(%rsp)
	vmovdqa	192(%rsp), %xmm2
	vpextrw	$7, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 8(%rsp)
	vpextrw	$6, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 20(%rsp)
	vpextrw	$5, %xmm2, %ecx
	shll	$16, %ecx
	vmovd	%ecx, %xmm0
	vpextrw	$4, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 44(%rsp)
	vpextrw	$3, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 1024(%rsp)
	vpextrw	$2, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 96(%rsp)
	vpextrw	$1, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 12(%rsp)
	vmovd	%xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 928(%rsp)
	vmovaps	%xmm1, 128(%rsp)
	movq	%r10, 88(%rsp)
	testq	%r10, %r10
	jle	.LBB6_6
	leaq	(%rax,%rsi,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_5:
	movzwl	(%rax,%rcx,2), %edx
	movw	%dx, 128(%rsp,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_5
.LBB6_6:
	movq	%rsi, 80(%rsp)
	vmovaps	%ymm3, 1248(%rsp)
	vfmadd213ps	%ymm4, %ymm3, %ymm8
	vmovaps	%ymm8, 1120(%rsp)
	vmovdqa	128(%rsp), %xmm1
	vmovd	%xmm1, %eax
	vpextrw	$1, %xmm1, %ecx
	shll	$16, %eax
	movl	%eax, 24(%rsp)
	shll	$16, %ecx
	movl	%ecx, 896(%rsp)
	vpextrw	$2, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 52(%rsp)
	vpextrw	$3, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 992(%rsp)
	vpextrw	$4, %xmm1, %eax
	vpextrw	$5, %xmm1, %ecx
	shll	$16, %eax
	movl	%eax, 960(%rsp)
	shll	$16, %ecx
	movl	%ecx, 16(%rsp)
	vpextrw	$6, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 48(%rsp)
	vpextrw	$7, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 4(%rsp)
	vzeroupper
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	44(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%r15d, %r13d
	vmovd	8(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	20(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r15d
	orl	%ebx, %r15d
	shlq	$32, %r15
	orq	%r13, %r15
	vmovd	12(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	928(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%ebx, %r13d
	vmovd	1024(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	96(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %eax
	orl	%ebx, %eax
	shlq	$32, %rax
	orq	%r13, %rax
	movq	32(%rsp), %rdx
	leaq	(%rdx,%rdx), %rcx
	shlq	$5, %rdx
	subq	%rcx, %rdx
	vmovss	4(%rsp), %xmm0
	vmovss	%xmm0, 12(%rsp)
	vmovd	16(%rsp), %xmm0
	vmovss	960(%rsp), %xmm1
	vmovss	%xmm1, 4(%rsp)
	movl	992(%rsp), %ecx
	movl	%ecx, 20(%rsp)
	vmovq	%rax, %xmm1
	vmovq	%r15, %xmm2
	vpunpcklqdq	%xmm2, %xmm1, %xmm1
	vpmovzxwd	%xmm1, %ymm1
	vpslld	$16, %ymm1, %ymm1
	vmovdqa	%ymm1, 96(%rsp)
	vaddps	224(%rsp), %ymm1, %ymm1
	vpxor	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vpbroadcastd	.LCPI6_0(%rip), %ymm3
	vmovdqa	%ymm3, 1024(%rsp)
	vpand	%ymm3, %ymm2, %ymm3
	vpbroadcastd	.LCPI6_1(%rip), %ymm4
	vmovdqa	%ymm4, 992(%rsp)
	vpaddd	%ymm4, %ymm1, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vpbroadcastd	.LCPI6_3(%rip), %ymm4
	vmovdqa	%ymm4, 960(%rsp)
	vpand	%ymm4, %ymm1, %ymm1
	vpbroadcastd	.LCPI6_4(%rip), %ymm4
	vmovdqa	%ymm4, 928(%rsp)
	vpmaxud	%ymm4, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vpbroadcastd	.LCPI6_2(%rip), %ymm4
	vmovdqa	%ymm4, 224(%rsp)
	vpor	%ymm4, %ymm2, %ymm2
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 832(%rsp)
	vmovss	896(%rsp), %xmm1
	vmovss	%xmm1, 8(%rsp)
	vmovss	24(%rsp), %xmm1
	vmovss	%xmm1, 16(%rsp)
	movq	%rdx, 32(%rsp)
	movq	72(%rsp), %rax
	leaq	(%rax,%rdx), %rbx
	cmpq	$0, 64(%rsp)
	jle	.LBB6_9
	movq	56(%rsp), %rax
	leaq	(%rbx,%rax,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_8:
	movzwl	832(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB6_8
.LBB6_9:
	vmovaps	1088(%rsp), %ymm2
	vxorps	%xmm1, %xmm1, %xmm1
	vfmadd132ps	1056(%rsp), %ymm1, %ymm2
	vmovaps	%ymm2, 896(%rsp)
	vzeroupper
	callq	__truncsfbf2@PLT
	movq	%rbx, 24(%rsp)
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	4(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r15d
	orl	%ebx, %r15d
	vmovd	12(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r13d
	shll	$16, %r13d
	vmovd	48(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %ebx
	orl	%r13d, %ebx
	shlq	$32, %rbx
	orq	%r15, %rbx
	vmovd	8(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	16(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%r15d, %r13d
	vmovd	20(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	52(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %eax
	orl	%r15d, %eax
	shlq	$32, %rax
	orq	%r13, %rax
	vmovq	%rax, %xmm0
	vmovq	%rbx, %xmm1
	movq	24(%rsp), %rbx
	vpunpcklqdq	%xmm1, %xmm0, %xmm0
	vpmovzxwd	%xmm0, %ymm0
	vpslld	$16, %ymm0, %ymm0
	vaddps	1120(%rsp), %ymm0, %ymm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vmovdqa	1024(%rsp), %ymm11
	vpand	%ymm2, %ymm11, %ymm3
	vmovdqa	992(%rsp), %ymm12
	vpaddd	%ymm1, %ymm12, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vpor	224(%rsp), %ymm2, %ymm2
	vmovdqa	960(%rsp), %ymm14
	vpand	%ymm1, %ymm14, %ymm1
	vmovdqa	928(%rsp), %ymm15
	vpmaxud	%ymm15, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 768(%rsp)
	movq	88(%rsp), %r8
	testq	%r8, %r8
	movq	80(%rsp), %r11
	jle	.LBB6_12
	leaq	(%rbx,%r11,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_11:
	movzwl	768(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_11
.LBB6_12:
	vmovaps	1248(%rsp), %ymm6
	vxorps	%xmm8, %xmm8, %xmm8
	vmovaps	1056(%rsp), %ymm13
	vfmadd213ps	%ymm8, %ymm6, %ymm13
	vmovaps	896(%rsp), %ymm1
	vaddps	96(%rsp), %ymm1, %ymm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm1, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	224(%rsp), %ymm3, %ymm3
	vpand	%ymm1, %ymm14, %ymm1
	vpmaxud	%ymm15, %ymm1, %ymm5
	vpcmpeqd	%ymm5, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm3, %ymm4, %ymm1
	vextractf128	$1, %ymm1, %xmm3
	vpackusdw	%xmm3, %xmm1, %xmm1
	vmovdqa	%xmm1, 704(%rsp)
	movq	64(%rsp), %r10
	testq	%r10, %r10
	movq	56(%rsp), %r9
	vmovaps	1184(%rsp), %ymm9
	vmovaps	1152(%rsp), %ymm10
	jle	.LBB6_15
	leaq	(%rbx,%r9,2), %rax
	addq	$30, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_14:
	movzwl	704(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB6_14
.LBB6_15:
	vmovaps	1088(%rsp), %ymm7
	vmovaps	%ymm7, %ymm1
	vfmadd213ps	%ymm8, %ymm10, %ymm1
	vaddps	%ymm0, %ymm13, %ymm3
	vmaxps	%ymm3, %ymm2, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vmovdqa	224(%rsp), %ymm13
	vpor	%ymm3, %ymm13, %ymm3
	vpand	%ymm2, %ymm14, %ymm2
	vpmaxud	%ymm15, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 640(%rsp)
	testq	%r8, %r8
	movq	32(%rsp), %rsi
	movq	72(%rsp), %rdi
	jle	.LBB6_18
	leaq	(%rsi,%rdi), %rax
	addq	$30, %rax
	leaq	(%rax,%r11,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_17:
	movzwl	640(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_17
.LBB6_18:
	vfmadd213ps	%ymm8, %ymm6, %ymm10
	vaddps	96(%rsp), %ymm1, %ymm1
	vpxor	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm1, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm13, %ymm3
	vpand	%ymm1, %ymm14, %ymm1
	vpmaxud	%ymm15, %ymm1, %ymm5
	vpcmpeqd	%ymm5, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm3, %ymm4, %ymm1
	vextractf128	$1, %ymm1, %xmm3
	vpackusdw	%xmm3, %xmm1, %xmm1
	vmovdqa	%xmm1, 576(%rsp)
	testq	%r10, %r10
	jle	.LBB6_21
	leaq	(%rbx,%r9,2), %rax
	addq	$60, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_20:
	movzwl	576(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB6_20
.LBB6_21:
	vmovaps	%ymm7, %ymm1
	vfmadd213ps	%ymm8, %ymm9, %ymm1
	vaddps	%ymm0, %ymm10, %ymm3
	vmaxps	%ymm3, %ymm2, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm13, %ymm3
	vpand	%ymm2, %ymm14, %ymm2
	vpmaxud	%ymm15, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 512(%rsp)
	testq	%r8, %r8
	jle	.LBB6_24
	leaq	(%rsi,%rdi), %rax
	addq	$60, %rax
	leaq	(%rax,%r11,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_23:
	movzwl	512(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_23
.LBB6_24:
	vfmadd213ps	%ymm8, %ymm6, %ymm9
	vaddps	96(%rsp), %ymm1, %ymm2
	vxorps	%xmm1, %xmm1, %xmm1
	vmaxps	%ymm2, %ymm1, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm13, %ymm3
	vpand	%ymm2, %ymm14, %ymm2
	vpmaxud	%ymm15, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 448(%rsp)
	testq	%r10, %r10
	jle	.LBB6_27
	leaq	(%rbx,%r9,2), %rax
	addq	$90, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_26:
	movzwl	448(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB6_26
.LBB6_27:
	vmovaps	1216(%rsp), %ymm5
	vfmadd213ps	%ymm8, %ymm5, %ymm7
	vaddps	%ymm0, %ymm9, %ymm2
	vmaxps	%ymm2, %ymm1, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vpand	%ymm2, %ymm11, %ymm3
	vpaddd	%ymm1, %ymm12, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vpor	%ymm2, %ymm13, %ymm2
	vpand	%ymm1, %ymm14, %ymm1
	vpmaxud	%ymm15, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 384(%rsp)
	testq	%r8, %r8
	jle	.LBB6_30
	leaq	(%rsi,%rdi), %rax
	addq	$90, %rax
	leaq	(%rax,%r11,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_29:
	movzwl	384(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_29
.LBB6_30:
	vfmadd213ps	%ymm8, %ymm5, %ymm6
	vaddps	96(%rsp), %ymm7, %ymm2
	vpxor	%xmm1, %xmm1, %xmm1
	vmaxps	%ymm2, %ymm1, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm13, %ymm3
	vpand	%ymm2, %ymm14, %ymm2
	vpmaxud	%ymm15, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 320(%rsp)
	testq	%r10, %r10
	jle	.LBB6_33
	leaq	(%rbx,%r9,2), %rax
	addq	$120, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_32:
	movzwl	320(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB6_32
.LBB6_33:
	vaddps	%ymm0, %ymm6, %ymm0
	vmaxps	%ymm0, %ymm1, %ymm0
	vpsrld	$16, %ymm0, %ymm1
	vpand	%ymm1, %ymm11, %ymm2
	vpaddd	%ymm0, %ymm12, %ymm3
	vpaddd	%ymm3, %ymm2, %ymm2
	vpsrld	$16, %ymm2, %ymm2
	vpor	%ymm1, %ymm13, %ymm1
	vpand	%ymm0, %ymm14, %ymm0
	vpmaxud	%ymm15, %ymm0, %ymm3
	vpcmpeqd	%ymm3, %ymm0, %ymm0
	vblendvps	%ymm0, %ymm1, %ymm2, %ymm0
	vextractf128	$1, %ymm0, %xmm1
	vpackusdw	%xmm1, %xmm0, %xmm0
	vmovdqa	%xmm0, 256(%rsp)
	testq	%r8, %r8
	jle	.LBB6_36
	leaq	(%rsi,%rdi), %rax
	addq	$120, %rax
	leaq	(%rax,%r11,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB6_35:
	movzwl	256(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB6_35
.LBB6_36:
	leaq	-40(%rbp), %rsp
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	vzeroupper
	retq
.Lfunc_end6:
	.size	tile_edge_5x1x2, .Lfunc_end6-tile_edge_5x1x2

	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI7_0:
	.long	1
.LCPI7_1:
	.long	32767
.LCPI7_2:
	.long	64
.LCPI7_3:
	.long	0x7fffffff
.LCPI7_4:
	.long	2139095041
	.text
	.p2align	4
	.type	tile_edge_4x1x2,@function
tile_edge_4x1x2:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	andq	$-64, %rsp
	subq	$1216, %rsp
	movq	%rcx, 72(%rsp)
	vmovups	(%rdx), %ymm0
	vmovups	32(%rdx), %ymm3
	vbroadcastss	(%rsi), %ymm7
	vxorps	%xmm4, %xmm4, %xmm4
	vbroadcastss	4(%rsi), %ymm6
	vbroadcastss	8(%rsi), %ymm5
	vbroadcastss	12(%rsi), %ymm2
	movq	(%rdi), %rax
	movq	8(%rdi), %rcx
	movq	%rcx, 56(%rsp)
	movq	%r9, %rdi
	subq	$8, %rdi
	movl	$8, %r14d
	cmovlq	%r9, %r14
	movl	$8, %r12d
	cmpq	$8, %rdi
	cmovlq	%rdi, %r12
	vxorps	%xmm1, %xmm1, %xmm1
	vmovaps	%xmm1, 192(%rsp)
	testq	%r9, %r9
	jle	.LBB7_3
	leaq	(%rax,%r8,2), %rcx
	xorl	%edx, %edx
	.p2align	4
.LBB7_2:
	movzwl	(%rcx,%rdx,2), %esi
	movw	%si, 192(%rsp,%rdx,2)
	incq	%rdx
	cmpq	%r14, %rdx
	jl	.LBB7_2
.LBB7_3:
	vmovaps	%ymm6, 960(%rsp)
	vmovaps	%ymm5, 1056(%rsp)
	vmovaps	%ymm2, 1088(%rsp)
	movq	%r9, 104(%rsp)
	movq	%r8, 96(%rsp)
	leaq	8(%r8), %rsi
	vmovaps	%ymm0, 992(%rsp)
	vfmadd213ps	%ymm4, %ymm7, %ymm0
	vmovaps	%ymm0, 928(%rsp)
	vmovdqa	192(%rsp), %xmm2
	vpextrw	$7, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 40(%rsp)
	vpextrw	$6, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 52(%rsp)
	vpextrw	$5, %xmm2, %ecx
	shll	$16, %ecx
	vmovd	%ecx, %xmm0
	vpextrw	$4, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 84(%rsp)
	vpextrw	$3, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 896(%rsp)
	vpextrw	$2, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 224(%rsp)
	vpextrw	$1, %xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 44(%rsp)
	vmovd	%xmm2, %ecx
	shll	$16, %ecx
	movl	%ecx, 800(%rsp)
	vmovaps	%xmm1, 128(%rsp)
	movq	%rdi, 120(%rsp)
	testq	%rdi, %rdi
	jle	.LBB7_6
	leaq	(%rax,%rsi,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_5:
	movzwl	(%rax,%rcx,2), %edx
	movw	%dx, 128(%rsp,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB7_5
.LBB7_6:
	movq	%rsi, 112(%rsp)
	vmovaps	%ymm3, 1120(%rsp)
	vfmadd213ps	%ymm4, %ymm3, %ymm7
	vmovaps	%ymm7, 1024(%rsp)
	vmovdqa	128(%rsp), %xmm1
	vmovd	%xmm1, %eax
	vpextrw	$1, %xmm1, %ecx
	shll	$16, %eax
	movl	%eax, 64(%rsp)
	shll	$16, %ecx
	movl	%ecx, 768(%rsp)
	vpextrw	$2, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 92(%rsp)
	vpextrw	$3, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 864(%rsp)
	vpextrw	$4, %xmm1, %eax
	vpextrw	$5, %xmm1, %ecx
	shll	$16, %eax
	movl	%eax, 832(%rsp)
	shll	$16, %ecx
	movl	%ecx, 48(%rsp)
	vpextrw	$6, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 88(%rsp)
	vpextrw	$7, %xmm1, %eax
	shll	$16, %eax
	movl	%eax, 36(%rsp)
	vzeroupper
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	84(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%r15d, %r13d
	vmovd	40(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	52(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r15d
	orl	%ebx, %r15d
	shlq	$32, %r15
	orq	%r13, %r15
	vmovd	44(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	800(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%ebx, %r13d
	vmovd	896(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	224(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %eax
	orl	%ebx, %eax
	shlq	$32, %rax
	orq	%r13, %rax
	movq	72(%rsp), %rdx
	leaq	(%rdx,%rdx), %rcx
	shlq	$5, %rdx
	subq	%rcx, %rdx
	vmovss	36(%rsp), %xmm0
	vmovss	%xmm0, 44(%rsp)
	vmovd	48(%rsp), %xmm0
	vmovss	832(%rsp), %xmm1
	vmovss	%xmm1, 36(%rsp)
	movl	864(%rsp), %ecx
	movl	%ecx, 52(%rsp)
	vmovq	%rax, %xmm1
	vmovq	%r15, %xmm2
	vpunpcklqdq	%xmm2, %xmm1, %xmm1
	vpmovzxwd	%xmm1, %ymm1
	vpslld	$16, %ymm1, %ymm1
	vmovdqa	%ymm1, 224(%rsp)
	vaddps	928(%rsp), %ymm1, %ymm1
	vpxor	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vpbroadcastd	.LCPI7_0(%rip), %ymm3
	vmovdqa	%ymm3, 928(%rsp)
	vpand	%ymm3, %ymm2, %ymm3
	vpbroadcastd	.LCPI7_1(%rip), %ymm4
	vmovdqa	%ymm4, 896(%rsp)
	vpaddd	%ymm4, %ymm1, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vpbroadcastd	.LCPI7_3(%rip), %ymm4
	vmovdqa	%ymm4, 864(%rsp)
	vpand	%ymm4, %ymm1, %ymm1
	vpbroadcastd	.LCPI7_4(%rip), %ymm4
	vmovdqa	%ymm4, 832(%rsp)
	vpmaxud	%ymm4, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vpbroadcastd	.LCPI7_2(%rip), %ymm4
	vmovdqa	%ymm4, 800(%rsp)
	vpor	%ymm4, %ymm2, %ymm2
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 704(%rsp)
	vmovss	768(%rsp), %xmm1
	vmovss	%xmm1, 40(%rsp)
	vmovss	64(%rsp), %xmm1
	vmovss	%xmm1, 48(%rsp)
	movq	%rdx, 72(%rsp)
	movq	56(%rsp), %rax
	leaq	(%rax,%rdx), %rsi
	cmpq	$0, 104(%rsp)
	jle	.LBB7_9
	movq	96(%rsp), %rax
	leaq	(%rsi,%rax,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_8:
	movzwl	704(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB7_8
.LBB7_9:
	vmovaps	992(%rsp), %ymm2
	vxorps	%xmm1, %xmm1, %xmm1
	vfmadd132ps	960(%rsp), %ymm1, %ymm2
	vmovaps	%ymm2, 768(%rsp)
	movq	%rsi, 64(%rsp)
	vzeroupper
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %ebx
	shll	$16, %ebx
	vmovd	36(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r15d
	orl	%ebx, %r15d
	vmovd	44(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r13d
	shll	$16, %r13d
	vmovd	88(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %ebx
	orl	%r13d, %ebx
	shlq	$32, %rbx
	orq	%r15, %rbx
	vmovd	40(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	48(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %r13d
	orl	%r15d, %r13d
	vmovd	52(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	vpextrw	$0, %xmm0, %r15d
	shll	$16, %r15d
	vmovd	92(%rsp), %xmm0
	callq	__truncsfbf2@PLT
	movq	64(%rsp), %r11
	vpextrw	$0, %xmm0, %eax
	movzwl	%ax, %eax
	orl	%r15d, %eax
	shlq	$32, %rax
	orq	%r13, %rax
	vmovq	%rax, %xmm0
	vmovq	%rbx, %xmm1
	vpunpcklqdq	%xmm1, %xmm0, %xmm0
	vpmovzxwd	%xmm0, %ymm0
	vpslld	$16, %ymm0, %ymm0
	vaddps	1024(%rsp), %ymm0, %ymm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vmovdqa	928(%rsp), %ymm11
	vpand	%ymm2, %ymm11, %ymm3
	vmovdqa	896(%rsp), %ymm12
	vpaddd	%ymm1, %ymm12, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vmovdqa	800(%rsp), %ymm15
	vpor	%ymm2, %ymm15, %ymm2
	vmovdqa	864(%rsp), %ymm13
	vpand	%ymm1, %ymm13, %ymm1
	vmovdqa	832(%rsp), %ymm14
	vpmaxud	%ymm14, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 640(%rsp)
	movq	120(%rsp), %rdi
	testq	%rdi, %rdi
	movq	112(%rsp), %r10
	jle	.LBB7_12
	leaq	(%r11,%r10,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_11:
	movzwl	640(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB7_11
.LBB7_12:
	vmovaps	1120(%rsp), %ymm6
	vxorps	%xmm8, %xmm8, %xmm8
	vmovaps	960(%rsp), %ymm10
	vfmadd213ps	%ymm8, %ymm6, %ymm10
	vmovaps	768(%rsp), %ymm1
	vaddps	224(%rsp), %ymm1, %ymm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmaxps	%ymm1, %ymm2, %ymm1
	vpsrld	$16, %ymm1, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm1, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm15, %ymm3
	vpand	%ymm1, %ymm13, %ymm1
	vpmaxud	%ymm14, %ymm1, %ymm5
	vpcmpeqd	%ymm5, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm3, %ymm4, %ymm1
	vextractf128	$1, %ymm1, %xmm3
	vpackusdw	%xmm3, %xmm1, %xmm1
	vmovdqa	%xmm1, 576(%rsp)
	movq	104(%rsp), %r9
	testq	%r9, %r9
	movq	96(%rsp), %r8
	vmovaps	1056(%rsp), %ymm9
	jle	.LBB7_15
	leaq	(%r11,%r8,2), %rax
	addq	$30, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_14:
	movzwl	576(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB7_14
.LBB7_15:
	vmovaps	992(%rsp), %ymm7
	vmovaps	%ymm7, %ymm1
	vfmadd213ps	%ymm8, %ymm9, %ymm1
	vaddps	%ymm0, %ymm10, %ymm3
	vmaxps	%ymm3, %ymm2, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm15, %ymm3
	vpand	%ymm2, %ymm13, %ymm2
	vpmaxud	%ymm14, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 512(%rsp)
	testq	%rdi, %rdi
	movq	72(%rsp), %rsi
	jle	.LBB7_18
	movq	56(%rsp), %rax
	addq	%rsi, %rax
	addq	$30, %rax
	leaq	(%rax,%r10,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_17:
	movzwl	512(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB7_17
.LBB7_18:
	vfmadd213ps	%ymm8, %ymm6, %ymm9
	vaddps	224(%rsp), %ymm1, %ymm2
	vxorps	%xmm1, %xmm1, %xmm1
	vmaxps	%ymm2, %ymm1, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm15, %ymm3
	vpand	%ymm2, %ymm13, %ymm2
	vpmaxud	%ymm14, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 448(%rsp)
	testq	%r9, %r9
	jle	.LBB7_21
	leaq	(%r11,%r8,2), %rax
	addq	$60, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_20:
	movzwl	448(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB7_20
.LBB7_21:
	vmovaps	1088(%rsp), %ymm5
	vfmadd213ps	%ymm8, %ymm5, %ymm7
	vaddps	%ymm0, %ymm9, %ymm2
	vmaxps	%ymm2, %ymm1, %ymm1
	vpsrld	$16, %ymm1, %ymm2
	vpand	%ymm2, %ymm11, %ymm3
	vpaddd	%ymm1, %ymm12, %ymm4
	vpaddd	%ymm4, %ymm3, %ymm3
	vpsrld	$16, %ymm3, %ymm3
	vpor	%ymm2, %ymm15, %ymm2
	vpand	%ymm1, %ymm13, %ymm1
	vpmaxud	%ymm14, %ymm1, %ymm4
	vpcmpeqd	%ymm4, %ymm1, %ymm1
	vblendvps	%ymm1, %ymm2, %ymm3, %ymm1
	vextractf128	$1, %ymm1, %xmm2
	vpackusdw	%xmm2, %xmm1, %xmm1
	vmovdqa	%xmm1, 384(%rsp)
	testq	%rdi, %rdi
	jle	.LBB7_24
	movq	56(%rsp), %rax
	addq	%rsi, %rax
	addq	$60, %rax
	leaq	(%rax,%r10,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_23:
	movzwl	384(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB7_23
.LBB7_24:
	vfmadd213ps	%ymm8, %ymm5, %ymm6
	vaddps	224(%rsp), %ymm7, %ymm2
	vpxor	%xmm1, %xmm1, %xmm1
	vmaxps	%ymm2, %ymm1, %ymm2
	vpsrld	$16, %ymm2, %ymm3
	vpand	%ymm3, %ymm11, %ymm4
	vpaddd	%ymm2, %ymm12, %ymm5
	vpaddd	%ymm5, %ymm4, %ymm4
	vpsrld	$16, %ymm4, %ymm4
	vpor	%ymm3, %ymm15, %ymm3
	vpand	%ymm2, %ymm13, %ymm2
	vpmaxud	%ymm14, %ymm2, %ymm5
	vpcmpeqd	%ymm5, %ymm2, %ymm2
	vblendvps	%ymm2, %ymm3, %ymm4, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vpackusdw	%xmm3, %xmm2, %xmm2
	vmovdqa	%xmm2, 320(%rsp)
	testq	%r9, %r9
	jle	.LBB7_27
	leaq	(%r11,%r8,2), %rax
	addq	$90, %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_26:
	movzwl	320(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r14, %rcx
	jl	.LBB7_26
.LBB7_27:
	vaddps	%ymm0, %ymm6, %ymm0
	vmaxps	%ymm0, %ymm1, %ymm0
	vpsrld	$16, %ymm0, %ymm1
	vpand	%ymm1, %ymm11, %ymm2
	vpaddd	%ymm0, %ymm12, %ymm3
	vpaddd	%ymm3, %ymm2, %ymm2
	vpsrld	$16, %ymm2, %ymm2
	vpor	%ymm1, %ymm15, %ymm1
	vpand	%ymm0, %ymm13, %ymm0
	vpmaxud	%ymm14, %ymm0, %ymm3
	vpcmpeqd	%ymm3, %ymm0, %ymm0
	vblendvps	%ymm0, %ymm1, %ymm2, %ymm0
	vextractf128	$1, %ymm0, %xmm1
	vpackusdw	%xmm1, %xmm0, %xmm0
	vmovdqa	%xmm0, 256(%rsp)
	testq	%rdi, %rdi
	jle	.LBB7_30
	movq	56(%rsp), %rax
	addq	%rsi, %rax
	addq	$90, %rax
	leaq	(%rax,%r10,2), %rax
	xorl	%ecx, %ecx
	.p2align	4
.LBB7_29:
	movzwl	256(%rsp,%rcx,2), %edx
	movw	%dx, (%rax,%rcx,2)
	incq	%rcx
	cmpq	%r12, %rcx
	jl	.LBB7_29
.LBB7_30:
	leaq	-40(%rbp), %rsp
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	vzeroupper
	retq
.Lfunc_end7:
	.size	tile_edge_4x1x2, .Lfunc_end7-tile_edge_4x1x2

	.section	".note.GNU-stack","",@progbits
